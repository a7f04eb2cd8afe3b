"""The output equals the input, byte for byte, once and in order."""

from collections.abc import Callable
from functools import partial

import pytest

from dedupe_crds.status.exit_code import ExitCode
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message, TimestampType
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.traffic.hostile import hostile
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import PacedProducer, produce_in_transaction, retries

CreateStream = Callable[..., TestStream]

SEED = 20261121
YEAR_1970_MS = 1
YEAR_2100_MS = 4_102_444_800_000


def pass_through(stream: TestStream, workers: Workers, messages: list[Message]) -> None:
    stream.send(messages)
    workers.start(stream).wait_until_caught_up()


@pytest.mark.proof
def test_every_partition_is_deduplicated_by_its_own_worker(
    streams: CreateStream, workers: Workers
) -> None:
    stream = streams(partitions=2)
    stream.send(retries(SEED, 20_000, partitions=2))
    started = [workers.start(stream, partition) for partition in (0, 1)]
    for worker in started:
        worker.wait_until_caught_up()
    verdict = judge(stream.raw(), stream.clean(), key_id, up_to=stream.committed())
    verdict.assert_exactly_once(20_000)
    assert verdict.expected < 20_000
    for worker in started:
        assert worker.sigterm() == ExitCode.OK


def test_a_stream_is_passed_on_while_it_is_written(streams: CreateStream, workers: Workers) -> None:
    """Make many small transactions, as when the worker has caught up."""
    stream = streams()
    worker = workers.start(stream)
    worker.wait_until_ready()
    messages = retries(SEED, 600_000)  # until there were some transactions
    with PacedProducer(
        stream.bootstrap_servers, stream.input_topic, messages, messages_per_second=1_000
    ):
        worker.wait_until(lambda: worker.status().counts.transactions > 3, "it is passed on")
    worker.wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(4, or_more=True)


def in_traffic(worker: WorkerProcess) -> bool:
    return worker.status().counts.produced > 300


def test_a_worker_told_to_stop_leaves_no_transaction_half_done(
    streams: CreateStream, workers: Workers
) -> None:
    """Send SIGTERM during traffic, twice; the next worker resumes."""
    stream = streams()
    messages = list(retries(SEED, 20_000))  # for longer than two workers take to start
    with PacedProducer(
        stream.bootstrap_servers, stream.input_topic, messages, messages_per_second=1_000
    ) as producer:
        for _ in range(2):
            worker = workers.start(stream)
            worker.wait_until(partial(in_traffic, worker), "some of it is passed on")
            assert worker.sigterm() == ExitCode.OK
            stream.settle()
            raw, clean, committed = stream.raw(), stream.clean(), stream.committed()
            judge(raw, clean, key_id, up_to=committed).assert_exactly_once(300, or_more=True)
        producer.finish()
    workers.start(stream).wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(len(messages))


@pytest.mark.proof
def test_anything_kafka_holds_passes_as_it_is(streams: CreateStream, workers: Workers) -> None:
    stream = streams()
    pass_through(stream, workers, list(hostile(SEED, 2_000)))
    raw = stream.raw()
    judge(raw, stream.clean(), key_id).assert_exactly_once(2_000)
    assert {record.value for record in raw} >= {None, b""}
    assert {value for record in raw for _, value in record.headers} >= {None, b""}


@pytest.mark.proof
def test_headers_keep_their_order_repeats_and_nulls(
    streams: CreateStream, workers: Workers
) -> None:
    values = (None, b"", b"\xff", b"text")
    many = tuple((f"h{i % 2}", values[i % 4]) for i in range(300))
    expected = [many[:count] for count in (0, 1, 3, 300)]
    stream = streams()
    messages = [Message(0, b"%d" % i, b"", headers) for i, headers in enumerate(expected)]
    pass_through(stream, workers, messages)
    assert [record.headers for record in stream.clean()] == expected


def test_timestamps_from_1970_to_2100_pass_and_stay_the_time_of_creation(
    streams: CreateStream, workers: Workers
) -> None:
    stream = streams()
    moments = [YEAR_1970_MS, 999, 1_763_719_200_123, YEAR_2100_MS, YEAR_1970_MS + 1]
    messages = [Message(0, b"%d" % ms, b"", timestamp_ms=ms) for ms in moments]
    pass_through(stream, workers, messages)
    clean = stream.clean()
    assert [record.timestamp_ms for record in clean] == moments
    assert {record.timestamp_type for record in clean} == {TimestampType.CREATE_TIME}


def test_the_broker_time_of_the_input_becomes_the_time_of_the_output(
    streams: CreateStream, workers: Workers
) -> None:
    stream = streams(input={"message.timestamp.type": "LogAppendTime"})
    pass_through(stream, workers, list(retries(SEED, 500)))
    raw = stream.raw()
    assert {record.timestamp_type for record in raw} == {TimestampType.LOG_APPEND_TIME}
    judge(raw, stream.clean(), key_id).assert_exactly_once(500)


def test_observing_passes_everything_and_counts(streams: CreateStream, workers: Workers) -> None:
    stream = streams(mode="Observe")
    stream.send(retries(SEED, 5_000))
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    raw, clean = stream.raw(), stream.clean()
    judge(raw, clean, key_id, observe=True).assert_exactly_once(5_000)
    repeats = len(judge(raw, clean, key_id).duplicated)
    assert repeats > 0
    worker.wait_until(
        lambda: worker.status().counts.duplicates == repeats, f"it has counted {repeats} repeats"
    )


def test_what_another_transaction_aborted_is_not_passed_on(
    streams: CreateStream, workers: Workers
) -> None:
    """Transactional producers leave aborted records and markers in the input."""
    stream = streams()
    messages = list(retries(SEED, 300))
    for start, commit in ((0, True), (100, False), (200, True)):
        part = messages[start : start + 100]
        produce_in_transaction(stream.bootstrap_servers, stream.input_topic, part, commit=commit)
    raw = stream.raw()
    assert len(raw) == 200
    worker = workers.start(stream)
    worker.wait_until(
        lambda: not judge(raw, stream.clean(), key_id).lost, "all that was committed has passed"
    )
    judge(raw, stream.clean(), key_id).assert_exactly_once(200)
