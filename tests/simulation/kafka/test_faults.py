"""The faults that a broker shows seldom, so that no script compares them."""

import json
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from tests.simulation.kafka.calls import Call, Hook, Moment
from tests.simulation.kafka.cluster import SimKafka, no_faults, record
from tests.simulation.kafka.failures import failure
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.simulation.kafka.transactional import timed_out


class Simulation:
    """A cluster with one topic of one partition."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 # SimKafka's
        self.clock = SimpleClock()
        self.cluster = SimKafka(self.clock, **options)
        self.cluster.create_topic("topic")

    def producer(self, hook: Hook = no_faults, process: str = "it", **config: object) -> Producer:
        """Make a producer that is in a transaction."""
        clients = self.cluster.clients(process, hook)
        made: Producer = clients.producer({"transactional.id": "it", **config})
        made.init_transactions(5)
        made.begin_transaction()
        return made

    def values(self) -> list[bytes | None]:
        """Return what is visible."""
        return [each.value() for each in self.cluster.visible("topic", 0)]


def failing(name: str, moment: Moment, error: KafkaException) -> Hook:
    """Return a hook that fails the first such call."""
    left = [error]

    def hook(call: Call) -> None:
        if left and (call.name, call.moment) == (name, moment):
            raise left.pop()

    return hook


@pytest.mark.parametrize("moment", Moment)
def test_a_commit_whose_answer_is_lost_is_repeated(moment: Moment) -> None:
    at = Simulation()
    producer = at.producer(failing("commit_transaction", moment, timed_out()))
    producer.produce("topic", b"x", partition=0)
    with pytest.raises(KafkaException):
        producer.commit_transaction(5)
    assert at.values() == ([b"x"] if moment is Moment.AFTER else [])
    with pytest.raises(KafkaException, match="_CONFLICT"):
        producer.abort_transaction(5)
    producer.commit_transaction(5)
    assert at.values() == [b"x"]
    producer.begin_transaction()


def test_a_commit_takes_effect_after_the_call_timed_out_unless_the_process_died() -> None:
    for dies in (False, True):
        at = Simulation()
        producer = at.producer()
        producer.produce("topic", b"x", partition=0)
        producer.flush(5)
        at.cluster.coordinator_away(10)
        with pytest.raises(KafkaException, match="_TIMED_OUT"):
            producer.commit_transaction(5)
        if dies:
            at.cluster.disconnect("it")
        at.clock.advance(10)
        assert at.values() == ([] if dies else [b"x"])


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_send_whose_answer_is_lost_is_repeated_by_an_idempotent_producer(
    *, idempotent: bool
) -> None:
    at = Simulation()
    hook = failing("send", Moment.AFTER, failure(KafkaError.REQUEST_TIMED_OUT))
    delivered: list[bool] = []
    producer = at.cluster.clients("it", hook).producer({"enable.idempotence": idempotent})
    producer.produce(
        "topic", b"x", partition=0, callback=lambda error, _: delivered.append(error is None)
    )
    assert producer.flush(5) == 0
    assert delivered == [idempotent]
    assert at.values() == [b"x"]


def test_a_delivery_report_breaks_the_flush_of_a_fenced_producer() -> None:
    at = Simulation()
    producer = at.producer(on_delivery=lambda *_: None)
    producer.produce("topic", b"x", partition=0)
    producer.flush(5)
    at.producer(process="newer")
    producer.produce("topic", b"y", partition=0)
    with pytest.raises(SystemError):
        producer.flush(5)


def test_a_partition_without_a_leader_answers_nothing() -> None:
    at = Simulation()
    clients = at.cluster.clients("it", no_faults)
    at.cluster.write("topic", 0, [record(None, b"x")])
    reader = clients.consumer({"group.id": "group"})
    reader.assign([TopicPartition("topic", 0, 0)])
    at.cluster.leader_away("topic", 0, 5)
    assert reader.poll(2) is None
    producer = clients.producer({})
    producer.produce("topic", b"y", partition=0)
    assert producer.flush(2) == 1
    assert producer.flush(2) == 0
    assert [each.value() for each in reader.consume(2, 1)] == [b"x", b"y"]


def test_aborted_records_take_time_to_fetch_and_show_in_statistics() -> None:
    at = Simulation()
    other = at.cluster.begin_foreign("other")
    for _ in range(3):
        other.write("topic", 0, [record(None, b"aborted")] * 10, fetch_seconds=10)
    other.abort()
    at.cluster.write("topic", 0, [record(None, b"x")])
    seen: list[str] = []
    config = {"group.id": "group", "statistics.interval.ms": 5000, "stats_cb": seen.append}
    reader = at.cluster.clients("it", no_faults).consumer(config)
    reader.assign([TopicPartition("topic", 0, 0)])
    began = at.clock.monotonic()
    delivered = [reader.poll(5) for _ in range(7)]
    assert [each is not None for each in delivered] == [*[False] * 5, True, False]
    assert at.clock.monotonic() - began == pytest.approx(35)
    offsets = [json.loads(each)["topics"]["topic"]["partitions"]["0"] for each in seen]
    assert [each["next_offset"] for each in offsets] == [0, 10, 10, 20, 20, 32, 32]


def test_markers_are_written_later() -> None:
    at = Simulation()
    at.cluster.coordinator.marker_seconds = 2
    producer = at.producer()
    producer.produce("topic", b"x", partition=0)
    producer.commit_transaction(5)
    assert at.values() == []
    at.clock.advance(2)
    assert at.values() == [b"x"]
    producer.begin_transaction()
    producer.produce("topic", b"y", partition=0)
    producer.commit_transaction(5)
    at.producer(process="newer")  # waits for them
    assert at.values() == [b"x", b"y"]


def test_a_cluster_without_topic_ids_answers_the_nil_uuid() -> None:
    at = Simulation(topic_ids=False)
    assert str(at.cluster.topics.get("topic").id) == "A" * 22
    named = Simulation().cluster
    first = str(named.topics.get("topic").id)
    assert str(named.recreate_topic("topic").id) != first
    assert str(Simulation().cluster.topics.get("topic").id) == first


def test_retention_deletes_part_of_a_batch() -> None:
    at = Simulation()
    at.cluster.write("topic", 0, [record(None, b"%d" % n) for n in range(4)])
    at.cluster.write("topic", 0, [record(None, b"4")])
    at.cluster.delete_records("topic", 0, 2)
    assert at.values() == [b"2", b"3", b"4"]
    at.cluster.delete_records("topic", 0, 99)
    assert (at.values(), at.cluster.log("topic", 0).low) == ([], 5)


def test_a_batch_of_a_producer_that_was_fenced_since_its_partition_was_added_is_refused() -> None:
    at = Simulation()

    def hook(call: Call) -> None:
        if (call.name, call.moment) == ("send", Moment.BEFORE):
            at.cluster.coordinator.init("it", 60)

    producer = at.producer(hook)
    producer.produce("topic", b"x", partition=0)
    with pytest.raises(KafkaException, match="_FENCED"):
        producer.commit_transaction(5)
    log = at.cluster.log("topic", 0)
    assert log.last_stable_offset == log.end, "a transaction is open for ever"
