"""A store is restored from a bucket to an empty volume; no known duplicate passes."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import DownloadPhase, UploadPhase
from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import judged, logged, reconciled, wait_until_passed
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.patience import HANG_SECONDS
from tests.support.processes.admin_calls import admin_arguments
from tests.support.processes.faulty_proxy import Answer, Fault, Forward, Request
from tests.support.processes.processes import WorkerProcess
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import (
    ACCESS_DENIED,
    ALWAYS,
    NO_SUCH_BUCKET,
    SECRET,
    SLOW_DOWN,
    TestBucket,
    is_content,
)
from tests.support.snapshots.requests import begin_snapshot, download_of, snapshot
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

__all__ = ["bucket", "s3_server"]

CreateStream = Callable[..., TestStream]

RECORDS = 6_000
SMALL_MEMTABLES = {"window": {"maxBytes": "16Mi", "generations": 16}}


def traffic(start: int = 0) -> Sequence[Message]:
    return list(retries(SEED, RECORDS, start=start, value_bytes=100))


@pytest.fixture
def admin(tmp_path: Path) -> Sequence[str | Path]:
    return admin_arguments(tmp_path)


@pytest.fixture
def stored(
    streams: CreateStream, workers: FaultWorkers, bucket: TestBucket, admin: Sequence[str | Path]
) -> TestStream:
    """Return a stream with its first half in snapshot `a`, and without its volume."""
    stream = streams(snapshots=bucket.snapshots(), store=SMALL_MEMTABLES)
    stream.send(traffic())
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    assert snapshot(worker, "a").phase is UploadPhase.COMPLETED
    stream.send(traffic(start=RECORDS))
    wait_until_passed(stream, worker)
    worker.sigkill()
    shutil.rmtree(worker.state_dir)
    stream.send(traffic())
    stream.send(traffic(start=RECORDS))
    return stream


def wait_until_failed(worker: WorkerProcess, reason: str) -> None:
    def says_so() -> bool:
        answer = worker.readiness()
        return (answer.http_status, answer.body["reason"]) == (503, reason)

    worker.wait_until(says_so, f"/readyz says {reason}")


@pytest.mark.proof
def test_no_duplicate_passes_a_store_that_came_back_from_the_bucket(
    streams: CreateStream,
    workers: FaultWorkers,
    bucket: TestBucket,
    admin: Sequence[str | Path],
) -> None:
    stream = streams(snapshots=bucket.snapshots(prefix="stores/a"))
    stream.send(traffic())
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    status = snapshot(worker, "nightly-1")
    assert (status.phase, status.error) == (UploadPhase.COMPLETED, None)
    assert status.handle == f"stores/a/default/{stream.name}/0/snapshots/nightly-1.json"
    before = len(stream.clean())
    assert status.checkpoint is not None
    assert status.checkpoint.keys == before
    assert sum(bucket.objects().values()) > status.total_bytes > 0

    stream.send(traffic(start=RECORDS))
    wait_until_passed(stream, worker)
    after = len(stream.clean())
    worker.sigkill()
    shutil.rmtree(worker.state_dir)

    stream.send(traffic())
    stream.send(traffic(start=RECORDS))
    worker = workers.start(stream, arguments=["--restore-from", "nightly-1", *admin])
    wait_until_passed(stream, worker)
    judged(stream)
    how = reconciled(worker)
    assert (how["reason"], how["records"]) == ("Tail", after - before)
    download = download_of(worker)
    assert (download.phase, download.bytes) == (DownloadPhase.COMPLETED, download.total_bytes)
    for log in worker.state_dir.parent.glob("*.log"):
        assert SECRET not in log.read_text()


def test_a_snapshot_of_another_output_topic_is_not_believed(
    stored: TestStream, workers: FaultWorkers, bucket: TestBucket
) -> None:
    """The restore accepts it; the reconcile detects it, as on any volume."""
    key = f"default/{stored.name}/0/snapshots/a.json"
    manifest = bucket.manifest(key)
    manifest["record"]["outputTopicId"] = "of-another-topic"
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=json.dumps(manifest).encode())
    worker = workers.start(stored, arguments=["--restore-from", "a"])
    wait_until_passed(stored, worker)
    judged(stored)
    assert reconciled(worker)["reason"] == "OutputTopicReplaced"


def test_what_cannot_be_restored_is_named_until_another_source_is_chosen(
    stored: TestStream, workers: FaultWorkers
) -> None:
    passed = len(stored.clean())
    worker = workers.start(stored, arguments=["--restore-from", "b"])
    wait_until_failed(worker, "RestoreFailed")
    download = download_of(worker)
    assert (download.name, download.phase) == ("b", DownloadPhase.FAILED)
    assert download.error is not None
    assert f"default/{stored.name}/0/snapshots/b.json" in download.error
    worker.wait_until(lambda: len(logged(worker, "session failed")) > 1, "it tries again")
    assert len(stored.clean()) == passed, "nothing passes without a store"
    assert worker.sigterm() == ExitCode.OK

    worker = workers.start(stored, arguments=["--restore-from", "a"])
    wait_until_passed(stored, worker)
    judged(stored)
    assert reconciled(worker)["reason"] == "Tail"


@pytest.mark.parametrize("fault", [ACCESS_DENIED, NO_SUCH_BUCKET])
def test_a_bucket_that_refuses_in_the_midst_gives_way_to_the_output_topic(
    stored: TestStream, workers: FaultWorkers, bucket: TestBucket, fault: Fault
) -> None:
    bucket.proxy.seen.clear()

    def is_third(request: Request) -> bool:
        return is_content(request) and sum(map(is_content, bucket.proxy.seen)) > 2

    bucket.proxy.inject(is_third, fault, times=ALWAYS)
    worker = workers.start(stored, arguments=["--restore-from", "a"])
    wait_until_failed(worker, "RestoreFailed")
    worker.sigkill()
    assert (worker.state_dir / "db.restoring").exists()

    worker = workers.start(stored)
    wait_until_passed(stored, worker)
    judged(stored)
    assert reconciled(worker)["reason"] == "NewStore"
    assert not (worker.state_dir / "db.restoring").exists()


def test_a_bucket_that_does_not_answer_is_waited_for(
    stored: TestStream, workers: FaultWorkers, bucket: TestBucket
) -> None:
    bucket.proxy.seen.clear()
    bucket.proxy.inject(lambda _: True, SLOW_DOWN, times=ALWAYS)
    worker = workers.start(stored, arguments=["--restore-from", "a"])
    wait_until_failed(worker, "BucketUnavailable")
    assert worker.status().download is None, "no user must choose another source yet"
    bucket.proxy.clear()
    wait_until_passed(stored, worker)
    judged(stored)
    assert reconciled(worker)["reason"] == "Tail"


def test_a_volume_that_has_a_store_is_not_restored(
    stored: TestStream, workers: FaultWorkers, bucket: TestBucket
) -> None:
    worker = workers.start(stored)
    wait_until_passed(stored, worker)
    assert worker.sigterm() == ExitCode.OK
    bucket.proxy.seen.clear()
    worker = workers.start(stored, arguments=["--restore-from", "a"])
    worker.wait_until_ready()
    assert reconciled(worker)["records"] == 0
    assert bucket.proxy.seen == []
    assert worker.status().download is None


def test_a_source_without_a_bucket_is_named_until_another_one_is_chosen(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """A volume with a store needs no bucket, so it does not keep a worker from its start."""
    worker = workers.start(streams(), arguments=["--restore-from", "a"])
    wait_until_failed(worker, "RestoreFailed")
    assert "no spec.snapshots.s3" in str(download_of(worker).error)


def test_messages_pass_while_a_snapshot_is_uploaded(
    streams: CreateStream,
    workers: FaultWorkers,
    bucket: TestBucket,
    admin: Sequence[str | Path],
) -> None:
    stream = streams(snapshots=bucket.snapshots())
    stream.send(traffic())
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    opened = Event()

    def held(request: Request, forward: Forward) -> Answer:
        assert opened.wait(HANG_SECONDS)
        return forward(request)

    bucket.proxy.inject(lambda each: each.method == "PUT", held, times=ALWAYS)
    begin_snapshot(worker, "a")
    stream.send(traffic(start=RECORDS))
    wait_until_passed(stream, worker)
    assert worker.readiness().http_status == 200
    upload = worker.status().upload
    assert upload is not None
    assert upload.phase is UploadPhase.RUNNING
    opened.set()
    worker.wait_until(lambda: worker.status().upload != upload, "the upload continues")
    judged(stream)
