"""The offsets of partitions that can be read: what one lacks does not keep the others' away."""

import pytest
from confluent_kafka import KafkaError

from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import BrokerUnavailable, NoLeader
from tests.simulation.kafka.calls import Call, Moment
from tests.simulation.kafka.cluster import SimKafka, record
from tests.simulation.kafka.failures import failure
from tests.simulation.kafka.simple_clock import SimpleClock

SOME = [record(b"k", b"v")] * 3


@pytest.fixture
def kafka() -> SimKafka:
    made = SimKafka(SimpleClock())
    made.create_topic("orders", 2)
    made.create_topic("returns", 1)
    made.write("orders", 1, SOME)
    made.write("returns", 0, SOME)
    return made


def cluster_of(kafka: SimKafka, calls: list[str], fails: int | None = None) -> Cluster:
    """Return the cluster; a list of offsets fails with this code."""

    def hook(call: Call) -> None:
        if call.moment is Moment.AFTER:
            return
        calls.append(call.name)
        if call.name == "list_offsets" and fails is not None:
            raise failure(fails)

    clients = kafka.clients("router", hook)
    return Cluster("sim:9092", {}, clients=clients, clock=kafka.clock)  # type: ignore[arg-type] # a SimpleClock


def test_partitions_of_several_topics_have_their_ends(kafka: SimKafka) -> None:
    places = [("orders", 0), ("orders", 1), ("returns", 0)]
    ends = cluster_of(kafka, []).readable_ends(places)
    assert ends == {("orders", 0): 0, ("orders", 1): 3, ("returns", 0): 3}


def test_an_open_transaction_ends_what_can_be_read(kafka: SimKafka) -> None:
    kafka.begin_foreign("another", 900.0).write("returns", 0, SOME)
    kafka.write("returns", 0, SOME)
    assert cluster_of(kafka, []).readable_ends([("returns", 0)]) == {("returns", 0): 3}


def test_one_without_a_leader_is_not_asked_for(kafka: SimKafka) -> None:
    """The request would wait for it until its time is over."""
    kafka.leader_away("orders", 0, 300.0)
    calls: list[str] = []
    began = kafka.clock.monotonic()
    places = [("orders", 0), ("orders", 1), ("absent", 0)]
    assert cluster_of(kafka, calls).readable_ends(places) == {("orders", 0): None, ("orders", 1): 3}
    assert calls == ["describe_topics", "describe_topics", "list_offsets"]
    assert kafka.clock.monotonic() - began < 1


def test_one_that_is_refused_has_no_end(kafka: SimKafka) -> None:
    cluster = cluster_of(kafka, [], KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert cluster.readable_ends([("returns", 0)]) == {("returns", 0): None}


def test_no_answer_is_no_end(kafka: SimKafka) -> None:
    cluster = cluster_of(kafka, [], KafkaError._TIMED_OUT)  # noqa: SLF001 (a public name)
    with pytest.raises(BrokerUnavailable):
        cluster.readable_ends([("returns", 0)])


def test_offsets_of_a_topic_name_why_one_has_none(kafka: SimKafka) -> None:
    kafka.leader_away("orders", 0, 300.0)
    began = kafka.clock.monotonic()
    found = cluster_of(kafka, []).offsets_of("orders")
    assert kafka.clock.monotonic() - began < 1
    assert (found.lows, found.ends) == ({1: 0}, {1: 3})
    assert [(number, str(why)[:22]) for number, why in found.failed.items()] == [
        (0, "orders/0 has no leader")
    ]
    assert cluster_of(kafka, []).offsets_of("orders", [1]).failed == {}


def test_who_needs_all_offsets_learns_which_partition_has_none(kafka: SimKafka) -> None:
    """A moment without a leader is waited for. The error of the request names any partition."""
    kafka.leader_away("orders", 0, 5.0)
    assert cluster_of(kafka, []).offsets("orders").ends == {0: 0, 1: 3}
    kafka.leader_away("orders", 0, 300.0)
    with pytest.raises(NoLeader, match=r"^orders/0 has no leader: start the brokers"):
        cluster_of(kafka, []).offsets("orders")
