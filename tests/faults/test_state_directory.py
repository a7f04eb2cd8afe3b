"""A state directory that is lost, of another stream, or old."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import CheckpointStatus
from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import (
    assert_undisturbed,
    failures,
    finish,
    judged,
    reconciled,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.layers import matrix
from tests.support.patience import HANG_SECONDS
from tests.support.processes.loopback import HTTP
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

RECORDS = 4_000
TOKEN = "a token for this test"  # noqa: S105 # it opens nothing else


def traffic(start: int = 0, count: int = RECORDS, partitions: int = 1) -> Sequence[Message]:
    return list(retries(SEED, count, start=start, partitions=partitions, value_bytes=100))


def contents(directory: Path) -> dict[str, str]:
    """Return the content of every file."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("end", "gone"),
    [
        matrix(WorkerProcess.sigterm, "."),
        (WorkerProcess.sigkill, "."),
        matrix(WorkerProcess.sigkill, "db"),
        (WorkerProcess.sigterm, "identity.json"),
    ],
)
def test_what_was_deleted_is_rebuilt_from_the_output_topic(
    streams: CreateStream,
    workers: FaultWorkers,
    end: Callable[[WorkerProcess], object],
    gone: str,
) -> None:
    stream = streams()
    stream.send(traffic())
    [worker] = finish(stream, workers)
    end(worker)
    passed = len(stream.clean())
    path = worker.state_dir / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    stream.send(traffic())
    stream.send(traffic(start=RECORDS))
    [worker] = finish(stream, workers)
    judged(stream)
    how = reconciled(worker)
    assert (how["reason"], how["records"]) == ("NewStore", passed)
    assert not worker.status().window.truncated, "the output topic holds everything"


def assert_refused(worker: WorkerProcess, message: str) -> None:
    assert worker.wait_until_ended() == ExitCode.IDENTITY_REFUSED
    [line] = [line for line in worker.logs() if line.get("level") == "error"]
    assert line["reason"] == "IdentityRefused"
    assert message in line["error"]
    assert str(worker.state_dir) in line["error"]


@pytest.mark.proof
def test_the_directory_of_another_partition_is_refused_and_nobody_is_disturbed(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams(partitions=2)
    stream.send(traffic(partitions=2))
    others, right = finish(stream, workers, partitions=2)
    assert others.sigterm() == ExitCode.OK
    before = contents(others.state_dir)

    wrong = workers.start(stream, 1, state_dir=others.state_dir)
    assert_refused(wrong, f"belongs to default/{stream.name} partition 0")
    assert contents(others.state_dir) == before
    stream.send(traffic(partitions=2))
    workers.start(stream, 0)
    wait_until_passed(stream, right)
    judged(stream)
    assert_undisturbed(right)
    assert right.status().counts.aborted_transactions <= len(failures(right))


def test_the_directory_of_another_stream_is_refused(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream, other = streams(), streams()
    for each in (stream, other):
        each.send(traffic(count=100))
    [worker] = finish(stream, workers)
    assert worker.sigterm() == ExitCode.OK
    before = contents(worker.state_dir)

    wrong = workers.start(other, state_dir=worker.state_dir)
    assert_refused(
        wrong, f"belongs to default/{stream.name} partition 0, not to default/{other.name}"
    )
    assert contents(worker.state_dir) == before
    assert other.clean() == []
    finish(other, workers)
    judged(other)


def test_a_store_restored_from_an_older_checkpoint_learns_the_rest_from_the_output_topic(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    stream = streams()
    stream.send(traffic())
    worker = workers.start(stream, arguments=["--admin-token-file", token_file])
    wait_until_passed(stream, worker)
    answer = HTTP.post(
        f"http://{worker.endpoint()}/checkpoint",
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=HANG_SECONDS,
    )
    checkpoint = CheckpointStatus.model_validate_json(answer.raise_for_status().content)
    before = len(stream.clean())
    assert checkpoint.keys == before
    stream.send(traffic(start=RECORDS))
    wait_until_passed(stream, worker)
    after = len(stream.clean())
    assert worker.sigterm() == ExitCode.OK

    shutil.rmtree(worker.state_dir / "db")
    shutil.copytree(Path(checkpoint.path) / "db", worker.state_dir / "db")
    stream.send(traffic())
    stream.send(traffic(start=RECORDS))
    [worker] = finish(stream, workers)
    judged(stream)
    how = reconciled(worker)
    assert (how["reason"], how["records"]) == ("Tail", after - before)
    assert worker.status().counts.produced == 0
