"""Input offsets that were lost, were reset, or have expired without a reader."""

import shutil
from collections.abc import Callable, Sequence

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.faults.seed import SEED
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import (
    finish,
    judged,
    passed_and_stopped,
    wait_until_killed,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers, InnerCrash, Point
from tests.support.layers import matrix
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.topic_changes import (
    create_topic,
    delete_group,
    delete_records,
    delete_topic,
    set_committed,
)
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]
Meddle = Callable[[TestStream], None]

RECORDS = 3_000
EXPIRED = 500

MEDDLING: dict[str, Meddle] = {
    "group deleted": delete_group,
    "set back": lambda stream: set_committed(stream, 100),
}


def traffic(start: int = 0) -> Sequence[Message]:
    return list(retries(SEED, RECORDS, start=start, value_bytes=100))


def degraded(worker: WorkerProcess) -> set[str]:
    return {each.reason for each in worker.status().degraded}


def expired_offsets(worker: WorkerProcess) -> float:
    families = text_string_to_metric_families(worker.get("/metrics").text)
    [value] = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "dedupe_input_offsets_expired_total"
    ]
    return float(value)


@pytest.mark.parametrize("name", ["group deleted", matrix("set back")])
def test_it_goes_on_from_the_store_s_offset_when_the_group_s_is_behind(
    streams: CreateStream, workers: FaultWorkers, name: str
) -> None:
    stream = streams()
    passed_and_stopped(stream, workers, traffic())
    MEDDLING[name](stream)

    stream.send(traffic(start=RECORDS))
    [worker] = finish(stream, workers)
    judged(stream)
    counts = worker.status().counts
    assert counts.consumed == RECORDS, "it read again what it had read"
    assert counts.redelivered == 0


@pytest.mark.parametrize("name", ["group deleted", matrix("set back")])
def test_without_a_store_as_well_it_reads_again_and_passes_nothing_twice(
    streams: CreateStream, workers: FaultWorkers, name: str
) -> None:
    stream = streams()
    worker = passed_and_stopped(stream, workers, traffic())
    MEDDLING[name](stream)
    shutil.rmtree(worker.state_dir)

    stream.send(traffic(start=RECORDS))
    [worker] = finish(stream, workers)
    judged(stream)
    assert worker.status().counts.consumed > RECORDS


@pytest.mark.proof
def test_records_that_expired_unread_are_counted_and_the_rest_is_passed_on(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams()
    passed_and_stopped(stream, workers, traffic())
    committed = stream.committed()[0]
    stream.send(traffic(start=RECORDS))
    raw = stream.raw()
    delete_records(stream, stream.input_topic, committed + EXPIRED)

    [worker] = finish(stream, workers)
    expired = range(committed, committed + EXPIRED)
    read = [record for record in raw if record.offset not in expired]
    judge(read, stream.clean(), key_id).assert_exactly_once(2 * RECORDS - EXPIRED)
    assert expired_offsets(worker) == EXPIRED
    readiness = worker.readiness()
    assert readiness.http_status == 200
    degraded = {each["reason"]: each["count"] for each in readiness.body["degraded"]}
    assert degraded["InputExpired"] == EXPIRED
    assert worker.status().counts.consumed == RECORDS - EXPIRED


def create_input_again(stream: TestStream) -> None:
    delete_topic(stream, stream.input_topic)
    create_topic(stream, stream.input_topic)


def more_than_before() -> Sequence[Message]:
    return list(retries(SEED, 2 * RECORDS, start=RECORDS, value_bytes=100))


def test_the_offset_of_a_deleted_topic_does_not_count_for_its_successor_after_a_kill(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """The kill comes after the identity of the new topic is on disk, and before any offset of it is."""
    stream = streams()
    passed_and_stopped(stream, workers, traffic())
    raw = stream.raw()
    create_input_again(stream)
    stream.send(more_than_before())
    raw += stream.raw()
    wait_until_killed(workers.start_towards(stream, InnerCrash(point=Point.IDENTITY_RECORDED)))

    finish(stream, workers)
    judge(raw, stream.clean(), key_id).assert_exactly_once(3 * RECORDS)


def test_an_input_topic_created_again_under_a_running_worker_is_read_from_its_start(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams()
    stream.send(traffic())
    [worker] = finish(stream, workers)
    raw = stream.raw()
    create_input_again(stream)
    worker.wait_until(lambda: "InputTopicReplaced" in degraded(worker), "it is noticed")

    stream.send(more_than_before())
    wait_until_passed(stream, worker)
    judge([*raw, *stream.raw()], stream.clean(), key_id).assert_exactly_once(3 * RECORDS)


def test_one_that_grew_past_the_worker_at_once_is_read_from_its_start_too(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """Before a description of the topic is due, by the fetch that failed."""
    stream = streams()
    stream.send(traffic())
    [worker] = finish(stream, workers)
    raw = stream.raw()
    create_input_again(stream)
    stream.send(more_than_before())
    wait_until_passed(stream, worker)
    assert "InputTopicReplaced" in degraded(worker)
    judge([*raw, *stream.raw()], stream.clean(), key_id).assert_exactly_once(3 * RECORDS)
