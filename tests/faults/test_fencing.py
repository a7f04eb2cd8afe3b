"""Two workers of a partition: the newer takes it over, and the older ends."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dedupe_crds.status.exit_code import ExitCode
from tests.faults.seed import SEED
from tests.support.crashes.aftermath import (
    assert_undisturbed,
    fault_met,
    judged,
    logged,
    wait_until_frozen,
    wait_until_open,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.layers import matrix
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import PacedProducer, retries

CreateStream = Callable[..., TestStream]

RECORDS = 10_000
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}


def assert_ended(worker: WorkerProcess, code: ExitCode, reason: str) -> None:
    assert worker.wait_until_ended() == code
    [line] = logged(worker, "worker ends")
    assert line["reason"] == reason


@pytest.mark.proof
def test_the_older_of_two_workers_ends_fenced(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path
) -> None:
    stream = streams()
    older = workers.start(stream)
    older.wait_until_ready()
    messages = retries(SEED, 60 * RECORDS, value_bytes=100)  # until both have been at work
    with PacedProducer(
        stream.bootstrap_servers, stream.input_topic, messages, messages_per_second=500
    ):
        older.wait_until(lambda: stream.progress().get(0, 0) > 0, "it is at work")
        newer = workers.start(stream, state_dir=tmp_path / "newer")
        assert_ended(older, ExitCode.FENCED, "Fenced")
    wait_until_passed(stream, newer)
    judged(stream)
    newer.wait_until(lambda: newer.status().counts.produced > 0, "it tells what it passed on")
    assert newer.sigterm() == ExitCode.OK


@pytest.mark.proof
@pytest.mark.parametrize(
    ("point", "leaves_open"),
    [matrix(Point.RECORDS_SENT, True), (Point.OFFSETS_SENT, True), (Point.COMMITTED, False)],
)
def test_a_worker_that_hung_while_another_took_over_ends_fenced(
    streams: CreateStream,
    workers: FaultWorkers,
    tmp_path: Path,
    point: Point,
    leaves_open: bool,
) -> None:
    """Send SIGSTOP in a transaction, and SIGCONT once the newer worker is done."""
    messages = list(retries(SEED, RECORDS, value_bytes=100))
    stream = streams(worker=SMALL_TRANSACTIONS)
    stream.send(messages)
    zombie = workers.start_towards(stream, InnerCrash(point=point, time=3, signal=signal.SIGSTOP))
    wait_until_frozen(zombie.pid)
    assert fault_met(zombie)["point"] == point
    wait_until_open(stream, is_open=leaves_open)
    newer = workers.start(stream, state_dir=tmp_path / "newer")
    wait_until_passed(stream, newer)
    wait_until_open(stream, is_open=False)

    zombie.resume()
    assert_ended(zombie, ExitCode.FENCED, "Fenced")
    stream.send(messages)
    wait_until_passed(stream, newer)
    judged(stream)
    assert_undisturbed(newer)


def test_a_state_directory_has_one_worker(streams: CreateStream, workers: FaultWorkers) -> None:
    """The second worker ends before it takes over, so the first is not fenced."""
    stream = streams()
    stream.send(retries(SEED, RECORDS))
    first = workers.start(stream)
    first.wait_until_ready()
    second = workers.start(stream)
    assert_ended(second, ExitCode.STATE_LOCKED, "StateLocked")
    stream.send(retries(SEED, RECORDS))
    wait_until_passed(stream, first)
    judged(stream)
    assert first.sigterm() == ExitCode.OK


def test_a_fenced_worker_writes_no_more_and_stands_by_when_it_is_started_again(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path
) -> None:
    """As on a partitioned node, whose kubelet restarts the worker repeatedly."""
    stream = streams()
    stream.send(retries(SEED, RECORDS))
    noted = ("--fenced-file", tmp_path / "fenced")
    older = workers.start(stream, arguments=noted)
    wait_until_passed(stream, older)
    newer = workers.start(stream, state_dir=tmp_path / "newer")
    newer.wait_until_ready()
    before = files_of(older.state_dir)

    stream.send(retries(SEED, RECORDS, start=RECORDS))
    assert_ended(older, ExitCode.FENCED, "Fenced")
    again = workers.start(stream, state_dir=older.state_dir, arguments=noted)
    again.wait_until(lambda: logged(again, "worker stands by"), "it stands by")
    stream.send(retries(SEED, RECORDS))
    wait_until_passed(stream, newer)

    assert files_of(older.state_dir) == before
    assert again.readiness().http_status == 503
    assert again.readiness().body["reason"] == "Fenced"
    assert again.get("/healthz").status_code == 200
    assert again.sigterm() == ExitCode.OK
    assert_undisturbed(newer)
    judged(stream)


def files_of(directory: Path) -> dict[str, tuple[int, int]]:
    """Return size and mtime of each file except RocksDB's LOG.

    RocksDB writes statistics to its LOG a second later.
    """
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != "LOG")
    found = ((path, path.stat()) for path in paths)
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in found}
