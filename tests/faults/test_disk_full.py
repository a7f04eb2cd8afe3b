"""A full volume: the worker waits, reports why, and resumes automatically."""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import count
from pathlib import Path

import pytest

from tests.faults.seed import SEED
from tests.support.crashes.aftermath import judged, wait_until_passed
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.processes.processes import WorkerProcess
from tests.support.snapshots.volumes import Volume, small_volume
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

RECORDS = 10_000
MORE = 500
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}
SMALL_MEMTABLES = {"window": {"maxBytes": "16Mi", "generations": 16}}
VOLUME_BYTES = 32 << 20


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with small_volume(tmp_path / "volume", VOLUME_BYTES) as mounted:
        yield mounted


def send(stream: TestStream, start: int = 0, records: int = RECORDS) -> None:
    messages = retries(SEED, records, start=start, value_bytes=100)
    stream.send(messages)


def wait_until_full(stream: TestStream, worker: WorkerProcess, volume: Volume) -> None:
    """Wait for the worker's word, while records come and other writers fill the volume.

    RocksDB frees space whenever it removes files in the background, or as it is opened: that may be enough for all
    records that were sent before.
    """
    starts = count(RECORDS, MORE)

    def says_so() -> bool:
        volume.fill()
        send(stream, next(starts), MORE)
        answer = worker.readiness()
        return (answer.http_status, answer.body["reason"]) == (
            HTTPStatus.SERVICE_UNAVAILABLE,
            "DiskFull",
        )

    worker.wait_until(says_so, "/readyz says DiskFull")


@pytest.mark.proof
def test_a_disk_that_fills_up_is_named_and_waited_for(
    streams: CreateStream, workers: FaultWorkers, volume: Volume
) -> None:
    stream = streams(store=SMALL_MEMTABLES, worker=SMALL_TRANSACTIONS)
    send(stream)
    worker = workers.start(stream, state_dir=volume.path)
    wait_until_passed(stream, worker)
    wait_until_full(stream, worker, volume)

    volume.free()
    send(stream)
    wait_until_passed(stream, worker)
    worker.wait_until_ready()
    judged(stream)
    assert worker.is_running


def test_a_disk_that_is_full_from_the_start_is_waited_for(
    streams: CreateStream, workers: FaultWorkers, volume: Volume
) -> None:
    stream = streams(store=SMALL_MEMTABLES)
    send(stream)
    volume.fill()
    worker = workers.start(stream, state_dir=volume.path)
    wait_until_full(stream, worker, volume)
    assert stream.clean() == []

    volume.free()
    wait_until_passed(stream, worker)
    judged(stream)
