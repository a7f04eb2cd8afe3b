"""A stream with an inverse Bloom store, end to end."""

from collections.abc import Callable

import httpx
import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import WorkerStatus
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.crashes.table_crashes import colliding, judged_table, table
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

RECORDS = 20_000


def shown(worker: WorkerProcess) -> WorkerStatus:
    """Return the worker's status once it shows its ids."""
    worker.wait_until(lambda: worker.status().window.keys > 0, "it says what it holds")
    return worker.status()


def test_a_table_large_enough_lets_next_to_nothing_pass_twice(
    streams: CreateStream, workers: Workers
) -> None:
    slots = 4_000_000
    stream = streams(partitions=2, store=table(slots))
    stream.send(retries(7, RECORDS, partitions=2, value_bytes=100))
    started = [workers.start(stream, partition) for partition in range(2)]
    for worker in started:
        worker.wait_until_caught_up()
    verdict = judged_table(stream, slots)
    assert len(verdict.duplicated) <= len(colliding(stream.raw(), [slots])) < 100
    for worker in started:
        status = shown(worker)
        assert status.window.bytes == slots * 24
        assert status.window.healthy
        assert not status.window.truncated
        assert status.counts.duplicates > 0


def test_a_table_far_too_small_lets_duplicates_pass_and_loses_nothing(
    streams: CreateStream, workers: Workers
) -> None:
    small = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}
    stream = streams(store=table(1024), worker=small)  # a large transaction knows its own ids
    traffic = list(retries(8, RECORDS, value_bytes=100))
    stream.send(traffic)
    stream.send(traffic)  # far repeats of everything
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    verdict = judge(stream.raw(), stream.clean(), key_id)
    assert verdict.defects.keys() == {"duplicated"}, str(verdict)
    assert len(verdict.duplicated) > RECORDS // 2, "nearly all far repeats"
    worker.wait_until(
        lambda: worker.status().window.truncated, "the status shows that the window is truncated"
    )
    assert worker.sigterm() == ExitCode.OK


@pytest.mark.parametrize("size", [{"memory": "24M"}, {"messages": 100_000, "retain": 0.9}], ids=str)
def test_a_table_may_be_asked_for_by_memory_or_by_what_it_retains(
    streams: CreateStream, workers: Workers, size: dict[str, object]
) -> None:
    stream = streams(store={"type": "InverseBloom", "inverseBloom": size})
    stream.send(retries(9, 5_000, value_bytes=100))
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    slots = shown(worker).window.bytes // 24
    assert 949_000 < slots <= 1_000_000
    judged_table(stream, slots)
    assert worker.get("/readyz").status_code == httpx.codes.OK
