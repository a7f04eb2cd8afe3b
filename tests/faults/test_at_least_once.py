"""Without transactions a killed worker loses nothing, but may repeat messages."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.seed import SEED
from tests.support.checker.checker import Verdict, judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.routed import added, everything, repeats, routes_of
from tests.support.crashes.aftermath import finish, wait_until_killed
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.crashes.steps import Crash, Step
from tests.support.layers import matrix
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import PacedProducer, retries

CreateStream = Callable[..., TestStream]
Routing = Callable[..., TestStream]

RECORDS = 20_000
KILLS = 8
RATE = 2_000.0
SMALL_TRANSACTIONS = {"tuning": {"maxBatchRecords": 500, "maxTransactionRecords": 1_000}}


def judged(stream: TestStream) -> Verdict:
    """Judge the stream: all unchanged, first copies in order; repeats may occur."""
    verdict = judge(stream.raw(), stream.clean(), key_id)
    assert verdict.defects.keys() <= {"duplicated", "reordered"}, str(verdict)
    again = {defect.raw_offset for defect in verdict.duplicated}
    assert {defect.raw_offset for defect in verdict.reordered} <= again, str(verdict)
    return verdict


def positions(stream: TestStream) -> set[str]:
    """Return the input positions of routed duplicates; a kill may repeat a record."""
    return {added(record)["dedupe-position"] for record in routes_of(stream).duplicates}


@pytest.mark.parametrize("idempotence", ["true", matrix("false")])
def test_a_worker_that_is_not_killed_passes_each_message_on_once(
    streams: CreateStream, workers: FaultWorkers, tmp_path: Path, idempotence: str
) -> None:
    properties = tmp_path / "kafka.properties"
    properties.write_text(f"enable.idempotence={idempotence}\n")
    stream = streams(delivery="AtLeastOnce")
    stream.send(retries(SEED, RECORDS, value_bytes=100))
    worker = workers.start(stream, arguments=["--kafka-properties", properties])
    worker.wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(RECORDS)
    assert worker.sigterm() == 0


@pytest.mark.proof
@pytest.mark.parametrize(
    "step",
    [
        matrix(Step.BEFORE_PRODUCE),
        Step.BEFORE_COMMIT,
        matrix(Step.BEFORE_STORE_WRITE),
        matrix(Step.AFTER_STORE_WRITE),
    ],
)
def test_what_a_killed_worker_had_sent_is_neither_lost_nor_repeated_nor_its_own_duplicate(
    routing: Routing, workers: FaultWorkers, step: Step
) -> None:
    """At the next start the broker has everything that was sent."""
    stream = routing(duplicates=True, delivery="AtLeastOnce", worker=SMALL_TRANSACTIONS)
    stream.send(retries(SEED, RECORDS, near_share=0.5, value_bytes=100))
    for time in (1, 7):
        wait_until_killed(workers.start(stream, crash=Crash(step, time)))
    finish(stream, workers)
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(RECORDS)
    repeated = repeats(stream.raw(), key_id)
    assert positions(stream) == {f"{record.partition}:{record.offset}" for record, _ in repeated}


def test_what_is_read_again_in_observe_mode_is_dropped_as_often_as_it_was_passed(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams(delivery="AtLeastOnce", mode="Observe", worker=SMALL_TRANSACTIONS)
    stream.send(retries(SEED, RECORDS, near_share=0.5, value_bytes=100))
    for time in (1, 7):
        wait_until_killed(workers.start(stream, crash=Crash(Step.BEFORE_COMMIT, time)))
    finish(stream, workers)
    assert everything(stream.clean()) == everything(stream.raw())


@pytest.mark.matrix
def test_workers_killed_at_any_moment_have_lost_nothing(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    rng = random.Random(SEED)
    stream = streams(delivery="AtLeastOnce")
    messages = retries(SEED, 600_000, value_bytes=100)
    with PacedProducer(
        stream.bootstrap_servers, stream.input_topic, messages, messages_per_second=RATE
    ):
        for _ in range(KILLS):
            worker = workers.start(stream)
            goal = stream.progress().get(0, 0) + rng.randrange(1, 3_000)
            worker.wait_until(lambda: stream.progress().get(0, 0) >= goal, "it is at work")  # noqa: B023 # asked at once
            worker.sigkill()
    finish(stream, workers)
    judged(stream)
