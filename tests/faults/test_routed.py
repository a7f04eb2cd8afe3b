"""A worker with side topics is killed at each step: each record is there once."""

import shutil
from collections.abc import Callable

import pytest

from tests.faults.seed import SEED
from tests.support.checker.id_sources import key_id
from tests.support.checker.routed import added, judge_routes, routed, routes_of
from tests.support.crashes.aftermath import (
    finish,
    judged,
    passed_and_stopped,
    reconciled,
    wait_until_killed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.crashes.steps import Crash, Step
from tests.support.layers import matrix
from tests.support.traffic.streams import TestStream
from tests.support.traffic.topic_changes import delete_records
from tests.support.traffic.traffic import retries

RECORDS = 10_000
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 300, "maxTransactionRecords": 600}}

Routing = Callable[..., TestStream]


@pytest.mark.proof
@pytest.mark.parametrize(
    "crashes",
    [
        matrix([Crash(Step.BEFORE_PRODUCE, 5), Crash(Step.BEFORE_COMMIT, 3)]),
        [
            InnerCrash(point=Point.RECORDS_SENT, time=2),
            InnerCrash(point=Point.OFFSETS_SENT, time=4),
        ],
        matrix([InnerCrash(point=Point.COMMITTED, time=3), Crash(Step.BEFORE_STORE_WRITE, 3)]),
        matrix([Crash(Step.AFTER_STORE_WRITE, 6), Crash(Step.DURING_RECONCILE, 1)]),
    ],
    ids=["before the commit", "in the commit", "after the commit", "after the store"],
)
def test_killed_workers_route_each_duplicate_once_with_the_right_owner(
    routing: Routing, workers: FaultWorkers, crashes: list[Crash | InnerCrash]
) -> None:
    stream = routing(duplicates=True, conflicts=True, worker=SMALL_TRANSACTIONS)
    stream.send(retries(SEED, RECORDS, near_share=0.5, value_bytes=100))
    for crash in crashes:
        if isinstance(crash, Crash):
            worker = workers.start(stream, crash=crash)
        else:
            worker = workers.start_towards(stream, crash)
        wait_until_killed(worker)
    finish(stream, workers)
    judged(stream)
    judge_routes(stream.raw(), routes_of(stream), key_id)


def test_a_rebuild_that_is_broken_off_still_knows_what_is_not_in_the_output(
    routing: Routing, workers: FaultWorkers
) -> None:
    """A copy of a record that the output has lost is late, and no new message."""
    finely = {"window": {"maxBytes": "16Mi", "generations": 16}}  # written 1,000 ids at a time
    stream = routing(late=True, store=finely)
    traffic = list(retries(SEED, RECORDS, value_bytes=100))
    worker = passed_and_stopped(stream, workers, traffic)
    shutil.rmtree(worker.state_dir / "db")
    cut = stream.clean()[RECORDS // 4]
    delete_records(stream, stream.output_topic, cut.offset)
    for time in (3, 2):
        wait_until_killed(workers.start(stream, crash=Crash(Step.DURING_RECONCILE_FLUSHED, time)))

    stream.send(traffic[:10])
    [last] = finish(stream, workers)
    assert reconciled(last)["reason"] == "Tail", "it was broken off behind ids that were on disk"
    late = {added(record)["dedupe-late"] for record in routed(stream, "late")}
    assert late == {str(cut.timestamp_ms)}
    assert stream.clean()[0].offset == cut.offset
    assert len(routed(stream, "late")) == 10
