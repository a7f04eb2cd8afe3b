"""What becomes of a cluster's answers."""

from concurrent.futures import Future
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.clients import Clients
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import (
    BrokerUnavailable,
    InvalidConfig,
    NotAuthorized,
    OpenTransaction,
    TopicMissing,
    TopicRefused,
)
from dedupe_kafka.offsets import TopicOffsets
from tests.unit.crds.manifests import MINIMAL, changed
from tests.unit.kafka.configs import CONFIG

STREAM = DedupeStream.model_validate(MINIMAL)
INPUT, OUTPUT = STREAM.spec.input.single, STREAM.spec.output.topic


class FakeAdmin:
    """A cluster of one broker that answers at once; `complaints` are what the client says when polled."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.topics: dict[str, dict[str, str]] = {INPUT: CONFIG}
        self.created: list[Any] = []
        self.create_fails: int | None = None
        self.someone_creates: dict[str, str] | None = None
        self.answers = True
        self.refused: dict[str, int] = {}
        self.complaints: list[KafkaError] = []
        self._error_cb = config["error_cb"]

    def describe_topics(self, topics: Any, **_: object) -> dict[str, Future[Any]]:  # noqa: ANN401 # the library's
        found = SimpleNamespace(partitions=[_partition()] * 4)
        return {
            name: _failed(self.refused[name]) if name in self.refused else self._about(name, found)
            for name in topics.topic_names
        }

    def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, Future[Any]]:
        (resource,) = resources
        config = self.topics.get(resource.name, {})
        entries = {key: SimpleNamespace(value=value) for key, value in config.items()}
        return {resource: self._about(resource.name, entries)}

    def create_topics(self, topics: list[Any], **_: object) -> dict[str, Future[Any]]:
        (topic,) = topics
        if self.someone_creates is not None:
            self.topics[topic.topic] = self.someone_creates
            return {topic.topic: _failed(KafkaError.TOPIC_ALREADY_EXISTS)}
        if self.create_fails is not None:
            return {topic.topic: _failed(self.create_fails)}
        self.created.append(topic)
        self.topics[topic.topic] = topic.config
        return {topic.topic: _done(None)}

    def poll(self, _seconds: float) -> None:
        while self.complaints:
            self._error_cb(self.complaints.pop(0))

    def _about(self, name: str, answer: object) -> Future[Any]:
        if not self.answers:
            return Future()
        found = name in self.topics
        return _done(answer) if found else _failed(KafkaError.UNKNOWN_TOPIC_OR_PART)


def _partition() -> object:
    return SimpleNamespace(replicas=["one"])


def _done(answer: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(answer)
    return future


def _failed(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code, "what the broker said")))
    return future


class FakeConsumer:
    """A consumer whose group has read the first partitions."""

    read = 0

    def __init__(self, config: dict[str, Any]) -> None:
        assert config["isolation.level"] == "read_uncommitted", "a killed worker's is waited for"

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        return [
            TopicPartition(each.topic, each.partition, 7 if each.partition < self.read else -1001)
            for each in partitions
        ]

    def close(self) -> None:
        """Disconnect."""


@pytest.fixture
def made() -> list[FakeAdmin]:
    return []


@pytest.fixture
def cluster(made: list[FakeAdmin]) -> Cluster:
    def make(config: dict[str, Any]) -> FakeAdmin:
        made.append(FakeAdmin(config))
        return made[-1]

    clients = Clients(consumer=FakeConsumer, admin=make)
    return Cluster("here:1", timeout_seconds=0.1, clients=clients)


@pytest.fixture
def admin(cluster: Cluster, made: list[FakeAdmin]) -> FakeAdmin:
    assert cluster
    return made[0]


def test_partitions_are_counted_of_the_topics_that_are_there_and_may_be_seen(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    admin.topics["secret"] = CONFIG
    admin.refused["secret"] = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert cluster.partition_counts({INPUT, "gone", "secret"}) == {INPUT: 4}
    admin.answers = False
    with pytest.raises(BrokerUnavailable):
        cluster.partition_counts({INPUT})


def test_partitions_beyond_those_that_the_group_has_read_wait(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of how many had workers may be lost; the group's offsets remain."""
    assert cluster.ensure_output(STREAM).served == 4, "a new stream has all"
    monkeypatch.setattr(FakeConsumer, "read", 3)
    assert cluster.ensure_output(STREAM).served == 3
    assert cluster.ensure_output(STREAM, seen=2).served == 3, "some volumes may be gone"
    assert cluster.ensure_output(STREAM, seen=4).served == 4, "the offsets may have expired"
    assert cluster.ensure_output(STREAM, known=2).served == 2


def test_an_output_that_is_absent_is_created_like_its_input(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    topics = cluster.ensure_output(STREAM)

    assert (topics.partitions, topics.problems, topics.created) == (4, (), True)
    (created,) = admin.created
    assert (created.topic, created.num_partitions, created.replication_factor) == (OUTPUT, 4, 1)


def test_an_output_that_is_there_is_checked_and_left_as_it_is(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    admin.topics[OUTPUT] = {**CONFIG, "cleanup.policy": "compact", "retention.ms": "1"}

    topics = cluster.ensure_output(STREAM)

    assert [problem.reason for problem in topics.problems] == [
        "OutputTopicCompacted",
        "OutputRetentionTooShort",
    ]
    assert not topics.created
    assert not admin.created


def test_an_output_that_someone_else_creates_meanwhile_is_checked_too(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    admin.someone_creates = {**CONFIG, "cleanup.policy": "compact"}

    topics = cluster.ensure_output(STREAM)

    assert not topics.created
    assert [problem.reason for problem in topics.problems] == ["OutputTopicCompacted"]


def test_an_input_that_is_absent_is_told_with_what_to_do(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    admin.topics.clear()

    with pytest.raises(TopicMissing, match=rf"Input topic {INPUT} .*here:1.*create it, or correct"):
        cluster.ensure_output(STREAM)
    assert not admin.created


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorized),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, NotAuthorized),
        (KafkaError.POLICY_VIOLATION, TopicRefused),
        (KafkaError.INVALID_REPLICATION_FACTOR, TopicRefused),
    ],
)
def test_a_topic_that_may_not_be_created_is_told_by_name(
    cluster: Cluster, admin: FakeAdmin, code: int, name: type[Exception]
) -> None:
    admin.create_fails = code

    with pytest.raises(name, match=rf"creating topic {OUTPUT} on here:1: what the broker said"):
        cluster.ensure_output(STREAM)


def test_no_answer_ends_in_time_with_the_cause_and_no_timing_in_it(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    admin.answers = False
    admin.complaints = [
        KafkaError(
            KafkaError._TRANSPORT,  # noqa: SLF001
            "here:1/bootstrap: Connection refused (after 3ms in state CONNECT, 1 identical error(s) suppressed)",
        ),
        KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"),  # noqa: SLF001
    ]

    with pytest.raises(BrokerUnavailable) as told:
        cluster.topic(INPUT)

    assert str(told.value) == (
        f"describing topic {INPUT} on here:1: no answer: here:1/bootstrap: Connection refused; "
        "check that Kafka runs there and can be reached from here"
    )


def test_refused_credentials_are_named_for_what_they_are_until_kafka_answers(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    admin.answers = False
    admin.complaints = [
        KafkaError(KafkaError._AUTHENTICATION, "here:1: SASL failed"),  # noqa: SLF001
        KafkaError(KafkaError._TRANSPORT, "here:1: Disconnected"),  # noqa: SLF001
    ]
    for _ in range(2):
        with pytest.raises(NotAuthorized, match="SASL failed; check the Kafka credentials"):
            cluster.topic(INPUT)

    admin.answers = True
    assert cluster.topic(INPUT) is not None
    admin.answers = False
    with pytest.raises(BrokerUnavailable):
        cluster.topic(INPUT)


def test_a_property_that_is_not_librdkafkas_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"no\.such"):
        Cluster("here:1", {"no.such": "x"})


ROUTING = parse_manifest(
    changed(
        {
            "spec.duplicates": {"policy": "Topic", "topic": "again"},
            "spec.late": {"policy": "Topic", "topic": "late"},
            "spec.output.filter": {"from": "Header", "name": "country"},
        }
    ),
    "routing",
)
BESIDE = ["again", "late", f"{OUTPUT}-filters", f"{OUTPUT}-owners"]


def test_the_topics_beside_the_output_are_created_with_its_partitions(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    admin.topics[INPUT] = {**CONFIG, "retention.ms": "1000"}
    topics = cluster.ensure_output(ROUTING)

    assert topics.problems == ()
    assert [(one.topic, one.num_partitions) for one in admin.created] == [
        (name, 4) for name in (OUTPUT, *BESIDE)
    ]
    output, again, _, filters, _ = (one.config for one in admin.created)
    assert again["retention.ms"] == "1000"
    assert int(again["max.message.bytes"]) > int(output["max.message.bytes"])
    assert (filters["retention.ms"], filters["retention.bytes"]) == (output["retention.ms"], "-1")


def test_topics_beside_the_output_that_are_there_are_checked_the_fatal_problems_first(
    cluster: Cluster, admin: FakeAdmin
) -> None:
    admin.topics[OUTPUT] = CONFIG
    admin.topics["again"] = {**CONFIG, "retention.ms": "1"}
    admin.topics[f"{OUTPUT}-filters"] = {**CONFIG, "retention.ms": "1"}
    admin.topics[f"{OUTPUT}-owners"] = {**CONFIG, "cleanup.policy": "compact"}

    problems = cluster.ensure_output(ROUTING).problems

    assert [(problem.reason, problem.fatal) for problem in problems] == [
        ("SideTopicCompacted", True),
        ("SideMessagesTooSmall", False),
        ("SideRetentionTooShort", False),
    ]
    assert f"{OUTPUT}-owners is compacted" in problems[0].message
    assert [one.topic for one in admin.created] == ["late"]


@pytest.mark.parametrize("delivery", ["ExactlyOnce", "AtLeastOnce"])
def test_owners_are_noted_where_they_are_told_of_and_transactions_keep_notes_true(
    cluster: Cluster, admin: FakeAdmin, delivery: str
) -> None:
    told = {"spec.conflicts": {"policy": "Topic", "topic": "other"}, "spec.delivery": delivery}
    cluster.ensure_output(parse_manifest(changed(told), "conflicts"))
    created = {one.topic for one in admin.created}
    assert (f"{OUTPUT}-owners" in created) == (delivery == "ExactlyOnce")


def test_an_open_transaction_is_reported_with_the_partitions_that_were_behind(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ends just after the last look at the offsets.
    ends = iter([{0: 5, 1: 5}, {0: 5, 1: 3}, {0: 5, 1: 5}])

    def offsets(name: str, *_: object) -> TopicOffsets:
        return TopicOffsets(topic=name, id="u", lows={0: 0, 1: 0}, ends=next(ends))

    monkeypatch.setattr(cluster, "offsets", offsets)
    with pytest.raises(OpenTransaction, match=r"partitions \[1\]"):
        cluster.settled_offsets("t", timedelta(0))
