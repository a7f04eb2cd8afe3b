"""An output topic that has changed since the store was written."""

import shutil
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Producer

from tests.faults.seed import SEED
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message
from tests.support.crashes.aftermath import (
    finish,
    logged,
    passed_and_stopped,
    reconciled,
    wait_until_killed,
    wait_until_passed,
)
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.crashes.steps import Crash, Step
from tests.support.patience import HANG_SECONDS
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.topic_changes import create_topic, delete_records, delete_topic
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

RECORDS = 3_000


def traffic(start: int = 0) -> Sequence[Message]:
    return list(retries(SEED, RECORDS, start=start, value_bytes=100))


def send_old(stream: TestStream, key: bytes) -> None:
    """Send a record whose timestamp is of the year 1970."""
    producer = Producer({"bootstrap.servers": stream.bootstrap_servers})
    producer.produce(stream.input_topic, b"old", key, 0, timestamp=1_000)
    assert producer.flush(HANG_SECONDS) == 0


def assert_rebuilt_for(worker: WorkerProcess, reason: str) -> None:
    worker.wait_until_ready()
    worker.wait_until(lambda: worker.status().window.truncated, "a window that forgot says so")
    status = worker.status()
    assert status.reconcile is not None
    assert status.reconcile.reason == reason
    assert f'reason="{reason}"' in worker.get("/metrics").text


def assert_exactly_once_from(stream: TestStream, offset: int) -> None:
    """Assert that the new output topic has all messages from this offset once."""
    raw = [record for record in stream.raw() if record.offset >= offset]
    verdict = judge(raw, stream.clean(), key_id)
    verdict.assert_exactly_once(RECORDS, or_more=True)
    assert verdict.expected > 0


@pytest.mark.proof
def test_one_that_was_replaced_while_the_worker_was_stopped_begins_a_new_window(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams()
    worker = passed_and_stopped(stream, workers, traffic())
    committed = stream.committed()[0]
    delete_topic(stream, stream.output_topic)
    create_topic(stream, stream.output_topic)

    stream.send(traffic())
    stream.send(traffic(start=RECORDS))
    [worker] = finish(stream, workers)
    assert_exactly_once_from(stream, committed)
    assert_rebuilt_for(worker, "OutputTopicReplaced")
    assert reconciled(worker)["records"] == 0


def test_one_that_is_replaced_under_a_running_worker_is_noticed(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    stream = streams()
    stream.send(traffic())
    [worker] = finish(stream, workers)
    committed = stream.committed()[0]
    delete_topic(stream, stream.output_topic)
    create_topic(stream, stream.output_topic)

    worker.wait_until(
        lambda: any(
            line["reason"] == "OutputTopicReplaced" for line in logged(worker, "caught up")
        ),
        "the worker knows that it is another topic",
    )
    worker.wait_until_ready()
    stream.send(traffic())
    wait_until_passed(stream, worker)
    assert_exactly_once_from(stream, committed)
    assert_rebuilt_for(worker, "OutputTopicReplaced")
    assert {line["reason"] for line in logged(worker, "session failed")} <= {
        "OutputTopicReplaced",
        "TopicMissing",
        "BrokerUnavailable",  # which does not know the new topic's leaders yet
    }


def test_a_tail_that_was_retained_away_is_not_passed_over_in_silence(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """The store is old, and later records are partly gone from the output topic."""
    stream = streams()
    worker = passed_and_stopped(stream, workers, traffic())
    yesterday = worker.state_dir.with_name("yesterday")
    shutil.copytree(worker.state_dir, yesterday)
    worker = passed_and_stopped(stream, workers, traffic(start=RECORDS))
    shutil.rmtree(worker.state_dir)
    shutil.copytree(yesterday, worker.state_dir)
    clean = stream.clean()
    low = clean[-1000].offset
    delete_records(stream, stream.output_topic, low)

    kept = {record.key for record in clean[-1000:]}
    stream.send([each for each in traffic(start=RECORDS) if each.key in kept])
    stream.send(traffic(start=2 * RECORDS))
    [worker] = finish(stream, workers)
    assert_rebuilt_for(worker, "TailRetainedAway")
    assert reconciled(worker)["records"] == 1000
    ever = [*(record for record in clean if record.offset < low), *stream.clean()]
    judge(stream.raw(), ever, key_id).assert_exactly_once(3 * RECORDS, or_more=True)


def test_a_rebuild_that_is_killed_still_says_that_the_window_is_shorter(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """The store that showed why is discarded, and nothing of the rebuild is flushed.

    The first record that is left has an old timestamp, so that the output alone seems to reach back far enough.
    """
    stream = streams()
    worker = passed_and_stopped(stream, workers, traffic())
    yesterday = worker.state_dir.with_name("yesterday")
    shutil.copytree(worker.state_dir, yesterday)
    send_old(stream, b"old")
    worker = passed_and_stopped(stream, workers, traffic(start=RECORDS))
    shutil.rmtree(worker.state_dir)
    shutil.copytree(yesterday, worker.state_dir)
    [old] = [record.offset for record in stream.clean() if record.key == b"old"]
    delete_records(stream, stream.output_topic, old)

    wait_until_killed(workers.start(stream, crash=Crash(Step.DURING_RECONCILE)))
    worker = workers.start(stream)
    worker.wait_until_ready()
    worker.wait_until(lambda: worker.status().window.truncated, "the mark outlived the kill")


def test_one_that_was_shortened_does_not_shorten_a_window_that_is_whole(
    streams: CreateStream, workers: FaultWorkers
) -> None:
    """Retention of the output topic does not matter to a complete store."""
    stream = streams()
    worker = passed_and_stopped(stream, workers, traffic())
    clean = stream.clean()
    delete_records(stream, stream.output_topic, clean[-1].offset + 1)

    stream.send(traffic())
    [worker] = finish(stream, workers)
    assert stream.clean() == []
    assert reconciled(worker)["reason"] == "Tail"
    judge(stream.raw(), clean, key_id).assert_exactly_once(2 * RECORDS)
