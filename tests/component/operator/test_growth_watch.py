"""The operator's part of a growth on a real broker: credentials from a Secret, ACLs, an unknown log."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are public
    AclOperation,
    ResourceType,
)

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.epochs import Epochs
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.epochs_topic import epochs_topic
from dedupe_operator.decide.growth import GrowthView
from dedupe_operator.growth_watch import GrowthWatch
from dedupe_operator.topic_watch import TopicsView, TopicWatch
from tests.component.worker.test_security import allow
from tests.support.patience import HANG_SECONDS
from tests.support.processes.secured_broker import PASSWORD, Certificate, SecuredBroker
from tests.unit.operator.inline import inline_asks

READS = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
CA_IN_POD = "/etc/dedupestream/kafka/ca.crt"


class Clock:
    """Time that passes between two passes, so that each asks Kafka."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 100.0
        return self.now


class Operator:
    """The watches of one stream, and its Secret."""

    def __init__(self, secured: SecuredBroker, pem: bytes) -> None:
        text = secured.client_properties(PASSWORD)
        written = [line for line in text.splitlines() if not line.startswith("ssl.ca.location")]
        properties = "\n".join([*written, f"ssl.ca.location={CA_IN_POD}"])
        self.secret: Mapping[str, bytes] = {
            "client.properties": properties.encode(),
            "ca.crt": pem,
        }
        self.restart()

    def restart(self) -> None:
        asks = inline_asks(Clock())
        self.topics, self.growth = TopicWatch(asks), GrowthWatch(asks)

    def look(
        self, stream: DedupeStream, known: int = 0, *, direct: str | None = None
    ) -> tuple[TopicsView, GrowthView]:
        """Do what a pass does with Kafka."""
        topics = self.topics.get(stream, self.secret)
        view = self.growth.get(
            *(stream, self.secret, topics), known=known, workers={}, counted={}, direct=direct
        )
        assert view is not None
        return topics, view


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, certificate: Certificate
) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured") / "broker", certificate) as running:
        yield running


@pytest.fixture
def operator(secured: SecuredBroker, certificate: Certificate) -> Operator:
    return Operator(secured, certificate.pem.read_bytes())


@pytest.fixture
def raw(secured: SecuredBroker) -> str:
    name = f"raw-{uuid4().hex[:8]}"
    Cluster(secured.bootstrap_servers).create(name, 3, 1, {})
    return name


def stream_of(secured: SecuredBroker, raw: str, partitions: int) -> DedupeStream:
    document: dict[str, Any] = {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeStream",
        "metadata": {"name": raw, "namespace": "shop"},
        "spec": {
            "kafka": {
                "bootstrapServers": secured.secured_servers,
                "configSecretRef": {"name": "kafka"},
            },
            "input": {"topic": raw},
            "output": {"topic": f"{raw}-clean"},
            "id": {"from": "Key"},
            "repartition": {"partitions": partitions},
        },
    }
    return parse_manifest(document, "test")


def topics_of(stream: DedupeStream) -> list[str]:
    spec = stream.spec
    return [spec.output.topic, spec.worker_input, epochs_topic(spec.output.topic)]


def steps_of(epochs: Epochs) -> tuple[int, int, int]:
    return epochs.prepared, epochs.switched, epochs.done


def test_a_growth_begins_with_the_credentials_of_a_secret(
    secured: SecuredBroker, operator: Operator, raw: str
) -> None:
    _, view = operator.look(stream_of(secured, raw, 2))
    assert (view.problem, view.epochs.workers, steps_of(view.epochs)) == (None, 2, (0, 0, 0))
    assert view.epochs.inputs == {0: {raw: 3}}
    grown = stream_of(secured, raw, 4)
    topics, view = operator.look(grown, known=2)
    assert (topics.usable, view.problem, steps_of(view.epochs)) == (True, None, (1, 0, 0))
    assert view.added == range(2, 4)
    topics_now = topics_of(grown)
    counts = Cluster(secured.bootstrap_servers).partition_counts(topics_now)
    assert [counts[topic] for topic in topics_now] == [4, 4, 1]

    operator.restart()
    _, again = operator.look(grown, known=4)
    assert again.epochs == view.epochs
    assert again.status == view.status


def test_the_topics_must_have_the_partitions_before_a_growth_begins(
    secured: SecuredBroker, operator: Operator, raw: str
) -> None:
    operator.look(stream_of(secured, raw, 2))
    grown = stream_of(secured, raw, 4)
    for topic in topics_of(grown):
        allow(secured, ResourceType.TOPIC, topic, *READS, AclOperation.WRITE)
    topics, view = operator.look(grown, known=2)
    assert "RepartitionTopicTooFewPartitions" in {each.reason for each in topics.problems}
    assert (view.epochs.workers, view.added) == (2, range(0))
    for topic in topics_of(grown):
        allow(secured, ResourceType.TOPIC, topic, AclOperation.ALTER)
    _, view = operator.look(grown, known=2)
    assert view.added == range(2, 4)


def test_a_missing_right_is_named_and_a_granted_one_is_used(
    secured: SecuredBroker, operator: Operator, raw: str
) -> None:
    stream = stream_of(secured, raw, 2)
    epochs = topics_of(stream)[-1]
    operator.topics.get(stream, operator.secret)
    allow(secured, ResourceType.TOPIC, epochs, *READS)
    _, view = operator.look(stream)
    assert view.problem is not None
    assert view.problem.reason == "NotAuthorized"
    assert epochs in view.problem.message
    assert view.epochs.workers == 0
    allow(secured, ResourceType.TOPIC, epochs, AclOperation.WRITE)
    _, view = operator.look(stream)
    assert (view.problem, view.epochs.workers) == (None, 2)


def test_an_entry_of_a_later_release_is_refused(
    secured: SecuredBroker, operator: Operator, raw: str
) -> None:
    stream = stream_of(secured, raw, 2)
    _, view = operator.look(stream)
    producer = Producer({"bootstrap.servers": secured.bootstrap_servers})
    number = b"%d" % view.epochs.entries
    producer.produce(topics_of(stream)[-1], b'{"entry":"shrink","epoch":1}', number, 0)
    assert producer.flush(HANG_SECONDS) == 0
    operator.restart()
    _, view = operator.look(stream, known=2)
    assert view.unreadable
    assert view.problem is not None
    assert view.problem.reason == "EpochLogUnreadable"


def test_only_a_topic_that_the_credentials_may_write_to_is_the_streams_own(
    secured: SecuredBroker, operator: Operator, raw: str
) -> None:
    """A stream that may only read a topic keeps it from no other one."""
    stream = stream_of(secured, raw, 2)
    output, repartitioned, _ = topics_of(stream)
    assert operator.topics.get(stream, operator.secret).held.keys() == {output, repartitioned}
    allow(secured, ResourceType.TOPIC, output, *READS)
    found = operator.topics.get(stream, operator.secret)
    assert found.held.keys() == {repartitioned}
    ids = Cluster(secured.bootstrap_servers).topic_ids([repartitioned])
    assert found.held == ids


def commit(secured: SecuredBroker, group: str, topic: str, partitions: int) -> None:
    """Commit offsets, as workers do that read the input themselves."""
    consumer = Consumer({"bootstrap.servers": secured.bootstrap_servers, "group.id": group})
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


def test_a_stream_without_routers_gets_them_once_the_topics_have_the_partitions(
    secured: SecuredBroker, operator: Operator, raw: str
) -> None:
    Cluster(secured.bootstrap_servers).create(f"{raw}-clean", 3, 1, {})
    # The last one has had no record yet.
    commit(secured, f"shop.{raw}", raw, 2)
    few = stream_of(secured, raw, 2)
    _, view = operator.look(few, known=3, direct=raw)
    assert view.problem is not None
    assert view.problem.message.endswith("make it at least 3")
    assert (view.epochs.workers, view.must_wait) == (3, True)

    stream = stream_of(secured, raw, 4)
    topics, view = operator.look(stream, known=3, direct=raw)
    assert (topics.usable, view.problem) == (True, None)
    assert view.epochs.direct is not None
    assert (view.epochs.direct.partitions, view.epochs.direct.topic) == (3, raw)
    assert (view.epochs.workers, view.hands_over, view.must_wait) == (4, True, False)
    assert view.status is not None
    assert view.status.line.startswith(
        "Change to routers from 3 to 4 partitions: HandingOver, 0 of 3"
    )
    topics_now = topics_of(stream)
    counts = Cluster(secured.bootstrap_servers).partition_counts(topics_now)
    assert [counts[topic] for topic in topics_now] == [4, 4, 1]

    operator.restart()
    _, again = operator.look(stream, known=3)
    assert (again.epochs, again.status) == (view.epochs, view.status)
