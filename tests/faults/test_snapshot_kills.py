"""A worker is killed during a snapshot or a restore; the next worker recovers."""

import shutil
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from dedupe_crds.status.worker import DownloadPhase, UploadPhase
from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import (
    fault_met,
    judged,
    reconciled,
    wait_until_killed,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.crashes.steps import Crash, Step
from tests.support.layers import matrix
from tests.support.processes.admin_calls import admin_arguments, post
from tests.support.processes.faulty_proxy import Answer, Fault, Forward, Request
from tests.support.processes.processes import WorkerProcess
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import TestBucket, is_content
from tests.support.snapshots.requests import begin_snapshot, download_of, snapshot
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

__all__ = ["bucket", "s3_server"]

CreateStream = Callable[..., TestStream]
Admin = Sequence[str | Path]

RECORDS = 6_000
SMALL_MEMTABLES = {"window": {"maxBytes": "16Mi", "generations": 16}}
RESTORING = ("--restore-from", "a")


def traffic(start: int = 0) -> Sequence[Message]:
    return list(retries(SEED, RECORDS, start=start, value_bytes=100))


@pytest.fixture
def admin(tmp_path: Path) -> Admin:
    return admin_arguments(tmp_path)


@pytest.fixture
def stream(streams: CreateStream, bucket: TestBucket) -> TestStream:
    stream = streams(snapshots=bucket.snapshots(), store=SMALL_MEMTABLES)
    stream.send(traffic())
    return stream


def kill(worker: WorkerProcess, *, after_the_act: bool) -> Fault:
    """Kill the worker at this request, before or after it has reached the bucket."""

    def fault(request: Request, forward: Forward) -> Answer | None:
        if after_the_act:
            forward(request)
        worker.sigkill()
        return None

    return fault


def nth(number: int, chosen: Callable[[Request], bool]) -> Callable[[Request], bool]:
    """Chooses the n-th of these requests, counted from 1."""
    count = 0

    def is_it(request: Request) -> bool:
        nonlocal count
        count += chosen(request)
        return chosen(request) and count == number

    return is_it


def is_upload(request: Request) -> bool:
    return request.method == "PUT" and is_content(request)


def is_manifest(request: Request) -> bool:
    return request.method == "PUT" and request.path.endswith("/snapshots/a.json")


def is_download(request: Request) -> bool:
    return request.method == "GET" and is_content(request) and "list-type" not in request.path


def lost_and_restored(
    stream: TestStream, workers: FaultWorkers, worker: WorkerProcess
) -> WorkerProcess:
    """Lose the volume, restore snapshot `a`, and send everything again."""
    worker.sigkill()
    shutil.rmtree(worker.state_dir)
    stream.send(traffic())
    stream.send(traffic(start=RECORDS))
    restored = workers.start(stream, arguments=RESTORING)
    wait_until_passed(stream, restored)
    judged(stream)
    assert reconciled(restored)["reason"] == "Tail"
    return restored


class Moment(NamedTuple):
    """A kill at the n-th request of a kind, before or after its effect."""

    chosen: Callable[[Request], bool]
    number: int = 1
    after_the_act: bool = False


@pytest.mark.parametrize(
    "moment",
    [
        matrix(Moment(is_upload)),
        Moment(is_upload, 4, after_the_act=True),
        matrix(Moment(is_manifest)),
        matrix(Moment(is_manifest, after_the_act=True)),
    ],
)
def test_killed_during_an_upload(
    stream: TestStream,
    workers: FaultWorkers,
    bucket: TestBucket,
    admin: Admin,
    moment: Moment,
) -> None:
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    dies_of = nth(moment.number, moment.chosen)
    bucket.proxy.inject(dies_of, kill(worker, after_the_act=moment.after_the_act))
    begin_snapshot(worker, "a")
    wait_until_killed(worker)
    assert bucket.proxy.pending == 0
    key = f"default/{stream.name}/0/snapshots/a.json"
    assert (key in bucket.objects()) == (moment.chosen is is_manifest and moment.after_the_act)

    stream.send(traffic(start=RECORDS))
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    assert worker.status().upload is None
    status = snapshot(worker, "a")
    assert (status.phase, status.error) == (UploadPhase.COMPLETED, None)
    assert status.checkpoint is not None
    assert status.checkpoint.output_position >= len(stream.clean()), "it is the new store's"
    lost_and_restored(stream, workers, worker)


def test_a_snapshot_whose_worker_died_after_its_manifest_is_one_like_any_other(
    stream: TestStream, workers: FaultWorkers, bucket: TestBucket, admin: Admin
) -> None:
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    bucket.proxy.inject(is_manifest, kill(worker, after_the_act=True))
    begin_snapshot(worker, "a")
    wait_until_killed(worker)
    stream.send(traffic(start=RECORDS))
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    assert post(worker, "/snapshots/check", name="a").json()["present"] is True
    lost_and_restored(stream, workers, worker)


@pytest.mark.parametrize("step", [matrix(Point.CHECKPOINT_BEGUN), Step.DURING_CHECKPOINT])
def test_killed_during_the_checkpoint_of_a_snapshot(
    stream: TestStream,
    workers: FaultWorkers,
    bucket: TestBucket,
    admin: Admin,
    step: Step | Point,
) -> None:
    worker = (
        workers.start(stream, crash=Crash(step), arguments=admin)
        if isinstance(step, Step)
        else workers.start_towards(stream, InnerCrash(point=step), arguments=admin)
    )
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    with pytest.raises(httpx.TransportError):
        post(worker, "/snapshots", name="a")
    wait_until_killed(worker)
    assert bucket.objects() == {}

    stream.send(traffic(start=RECORDS))
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    assert snapshot(worker, "a").phase is UploadPhase.COMPLETED
    lost_and_restored(stream, workers, worker)


@pytest.fixture
def stored(
    stream: TestStream, workers: FaultWorkers, bucket: TestBucket, admin: Admin
) -> TestStream:
    """Put the first half into snapshot `a`, lose the volume, and send all again."""
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)
    assert snapshot(worker, "a").phase is UploadPhase.COMPLETED
    stream.send(traffic(start=RECORDS))
    wait_until_passed(stream, worker)
    worker.sigkill()
    shutil.rmtree(worker.state_dir)
    stream.send(traffic())
    stream.send(traffic(start=RECORDS))
    bucket.proxy.seen.clear()
    return stream


def files(bucket: TestBucket, stream: TestStream) -> int:
    manifest = bucket.manifest(f"default/{stream.name}/0/snapshots/a.json")
    return sum(each["path"].startswith("db/") for each in manifest["files"])


@pytest.mark.proof
@pytest.mark.parametrize(
    ("number", "after_the_act"), [matrix(1, False), (4, True), matrix(8, False)]
)
def test_killed_during_a_download(
    stored: TestStream,
    workers: FaultWorkers,
    bucket: TestBucket,
    number: int,
    after_the_act: bool,
) -> None:
    # Its requests come in parallel: the killing request waits until others are answered.
    worker = workers.start(stored, arguments=RESTORING)
    bucket.proxy.inject(nth(number, is_download), kill(worker, after_the_act=after_the_act))
    wait_until_killed(worker)
    assert not (worker.state_dir / "identity.json").exists()
    assert not (worker.state_dir / "db").exists()

    worker = workers.start(stored, arguments=RESTORING)
    wait_until_passed(stored, worker)
    judged(stored)
    assert reconciled(worker)["reason"] == "Tail"
    assert download_of(worker).phase is DownloadPhase.COMPLETED


@pytest.mark.parametrize("point", [Point.DISCARDED, matrix(Point.IDENTITY_RECORDED)])
def test_killed_at_the_end_of_a_restore(
    stored: TestStream, workers: FaultWorkers, bucket: TestBucket, point: Point
) -> None:
    """The store is in place; its identity is recorded or not."""
    worker = workers.start_towards(stored, InnerCrash(point=point), arguments=RESTORING)
    wait_until_killed(worker)
    assert fault_met(worker)["point"] == point
    assert (worker.state_dir / "db").exists()
    assert sum(map(is_download, bucket.proxy.seen)) == files(bucket, stored)
    bucket.proxy.seen.clear()

    worker = workers.start(stored, arguments=RESTORING)
    wait_until_passed(stored, worker)
    judged(stored)
    assert reconciled(worker)["reason"] == "Tail"
    assert sum(map(is_download, bucket.proxy.seen)) == 0, "all was there"


def test_killed_while_it_reads_what_came_after_the_snapshot(
    stored: TestStream, workers: FaultWorkers
) -> None:
    worker = workers.start(stored, arguments=RESTORING, crash=Crash(Step.DURING_RECONCILE))
    wait_until_killed(worker)
    worker = workers.start(stored, arguments=RESTORING)
    wait_until_passed(stored, worker)
    judged(stored)
    assert reconciled(worker)["reason"] == "Tail"


def test_a_worker_that_is_told_to_stop_leaves_an_upload_undone(
    stream: TestStream, workers: FaultWorkers, bucket: TestBucket, admin: Admin
) -> None:
    worker = workers.start(stream, arguments=admin)
    wait_until_passed(stream, worker)

    def stop(_: Request, __: Forward) -> None:
        assert worker.sigterm() == 0

    bucket.proxy.inject(nth(2, is_upload), stop)
    begin_snapshot(worker, "a")
    assert worker.wait_until_ended() == 0
    worker = workers.start(stream, arguments=admin)
    assert snapshot(worker, "a").phase is UploadPhase.COMPLETED
    assert post(worker, "/checkpoint").status_code == HTTPStatus.OK
