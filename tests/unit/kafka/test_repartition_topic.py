"""The topics of a stream with routers, whose input is several topics or a pattern."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import Spec
from dedupe_kafka.errors import NotAuthorized, TopicMissing
from dedupe_kafka.input_topics import input_topics, matching_topics
from dedupe_kafka.repartition_topic import ensure_repartitioned
from dedupe_kafka.stream_topics import StreamTopics
from dedupe_kafka.topic import Topic
from tests.unit.crds.manifests import changed

DAY_MS: Final = 86_400_000
LARGEST: Final = 2**63 - 1
DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY_MS),
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "message.timestamp.type": "CreateTime",
}
BETWEEN: Final = "orders-clean-repartition"


def spec(
    given: Mapping[str, object] = {"topics": ["a", "b"]},  # nobody changes it
    **changes: Any,  # noqa: ANN401 # any field's value
) -> Spec:
    told = changed(
        {
            "spec.input": dict(given),
            "spec.repartition": {"partitions": 6},
            "spec.store": {"window": {"maxAge": "14d"}},
            **{f"spec.{field}": value for field, value in changes.items()},
        }
    )
    return parse_manifest(told, "a test").spec


def topic(name: str, partitions: int = 6, copies: int = 1, **config: object) -> Topic:
    changes = {key.replace("_", "."): str(value) for key, value in config.items()}
    return Topic(
        name=name,
        partitions=partitions,
        replication_factor=copies,
        config={**DEFAULTS, **changes},
    )


class FakeTopics:
    """A cluster whose brokers give new topics `DEFAULTS`, and 3 replicas."""

    def __init__(self, *topics: Topic) -> None:
        self.topics = {each.name: each for each in topics}
        self.created: list[str] = []
        self.grown: list[str] = []
        self.closed: set[str] = set()
        self.listed: list[str] = []
        self.someone_creates: Topic | None = None

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def topic_names(self) -> list[str]:
        return [*self.topics, *self.listed]

    def wait_for(self, name: str) -> Topic:
        return self.topics[name]

    def create(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> bool:
        if self.someone_creates is not None and self.someone_creates.name == name:
            self.topics[name] = self.someone_creates
            return False
        copies = 3 if replication_factor == -1 else replication_factor
        self.topics[name] = Topic(
            name=name,
            partitions=partitions,
            replication_factor=copies,
            config={**DEFAULTS, **config},
        )
        self.created.append(name)
        return True

    def grow(self, name: str, partitions: int) -> None:
        if name in self.closed:
            raise NotAuthorized(name)
        self.topics[name] = replace(self.topics[name], partitions=partitions)
        self.grown.append(name)

    def ensure(self, wanted: Spec) -> StreamTopics:
        assert wanted.repartition is not None
        inputs = input_topics(self, wanted, "here:1")
        return ensure_repartitioned(self, wanted, wanted.repartition, inputs)


def reasons(found: StreamTopics) -> list[tuple[str, bool]]:
    return [(each.reason, each.fatal) for each in found.problems]


# -- the inputs ------------------------------------------------------------------------------------


def test_topics_that_are_absent_are_all_named() -> None:
    with pytest.raises(
        TopicMissing, match=r"Input topics b, c do not exist on here:1: create them"
    ):
        FakeTopics(topic("a")).ensure(spec({"topics": ["c", "a", "b"]}))
    with pytest.raises(
        TopicMissing, match=r"Input topic b does not .*: create it, .*input\.topics"
    ):
        FakeTopics(topic("a")).ensure(spec())
    with pytest.raises(TopicMissing, match=r"spec\.input\.topic\."):
        FakeTopics().ensure(spec({"topic": "raw"}))


def test_a_pattern_takes_topics_whose_whole_names_match() -> None:
    names = ["orders-us", "orders-eu", "old-orders-eu", "orders-", "orders-eu"]
    wanted = spec({"pattern": "orders-.+"})
    assert matching_topics(names, wanted) == ["orders-eu", "orders-us"]
    assert matching_topics(names, spec()) == ["a", "b"], "without one they are as named"


@pytest.mark.parametrize("name", [BETWEEN, "between"])
def test_topics_of_kafka_and_of_the_stream_itself_are_no_input(name: str) -> None:
    routed = {
        each: {"policy": "Topic", "topic": f"to-{each}"}
        for each in ("duplicates", "conflicts", "late")
    }
    wanted = spec(
        {"pattern": ".*"}, repartition={"partitions": 6, "topic": {"name": name}}, **routed
    )
    own = [f"orders-clean{suffix}" for suffix in ("", "-filters", "-owners", "-epochs")]
    own += [name, "to-duplicates", "to-conflicts", "to-late"]
    assert matching_topics([*own, "__consumer_offsets", "orders"], wanted) == ["orders"]


def test_a_topic_that_is_deleted_after_it_was_listed_is_left_out() -> None:
    cluster = FakeTopics(topic("a"))
    cluster.listed = ["b"]
    assert input_topics(cluster, spec({"pattern": "."}), "here:1") == [topic("a")]


# -- the topics that are created -------------------------------------------------------------------

SMALL: Final = topic("a", 2, max_message_bytes=1_000, retention_ms=20 * DAY_MS)
SAFE: Final = topic("b", 9, 3, max_message_bytes=5_000, min_insync_replicas=2)


def test_the_topic_between_keeps_all_that_any_input_has_until_it_is_read() -> None:
    cluster = FakeTopics(SMALL, SAFE)
    found = cluster.ensure(spec())
    assert (found.partitions, found.served, found.problems, found.created) == (6, 6, (), True)
    between = cluster.topics[BETWEEN]
    assert (between.partitions, between.replication_factor) == (6, 3)
    assert between.config == {
        **DEFAULTS,
        "retention.ms": "-1",
        "max.message.bytes": "5512",
        "segment.bytes": "52428800",
        "min.insync.replicas": "2",
        "message.timestamp.before.max.ms": str(LARGEST),
        "message.timestamp.after.max.ms": str(LARGEST),
    }


def test_the_output_is_like_the_inputs_not_like_the_topic_between() -> None:
    cluster = FakeTopics(SMALL, SAFE)
    cluster.ensure(spec(duplicates={"policy": "Topic", "topic": "twice"}))
    output, twice = cluster.topics["orders-clean"], cluster.topics["twice"]
    for each in (output, twice):
        assert (each.partitions, each.replication_factor) == (6, 3)
        assert each.config["min.insync.replicas"] == "2"
        assert each.config["retention.ms"] == str(20 * DAY_MS), "the longest of the inputs"
    assert output.config["max.message.bytes"] == "5000"
    assert twice.config["max.message.bytes"] == "6024", "with the headers of the worker"


def test_an_input_that_is_kept_for_ever_makes_an_output_that_is() -> None:
    cluster = FakeTopics(SMALL, topic("b", retention_ms=-1))
    cluster.ensure(spec())
    assert cluster.topics["orders-clean"].config["retention.ms"] == "-1"


def test_no_topic_needs_more_replicas_in_sync_than_it_has() -> None:
    cluster = FakeTopics(topic("a"), topic("b", copies=2, min_insync_replicas=3))
    cluster.ensure(spec())
    assert cluster.topics[BETWEEN].config["min.insync.replicas"] == "2"


def test_with_topics_that_fit_nothing_is_created_or_told() -> None:
    cluster = FakeTopics(SMALL, SAFE)
    cluster.ensure(spec())
    cluster.created.clear()
    again = cluster.ensure(spec())
    assert (again.created, again.problems, cluster.created) == (False, (), [])


# -- a pattern that no topic matches ---------------------------------------------------------------

LATER: Final = {"pattern": "orders-raw-.*"}


def test_a_stream_waits_for_a_topic_that_matches_its_pattern() -> None:
    cluster = FakeTopics()
    found = cluster.ensure(spec(LATER))
    assert (found.partitions, found.served, found.created) == (6, 6, True)
    assert reasons(found) == [("NoInputTopic", False)]
    assert "pattern /orders-raw-.*/" in found.problems[0].message
    assert "create it" in found.problems[0].message


def test_its_topics_then_fit_an_input_with_the_sizes_that_brokers_give() -> None:
    """Else the first input would bring warnings about topics that the product has made."""
    cluster = FakeTopics()
    cluster.ensure(spec(LATER))
    between, output = cluster.topics[BETWEEN], cluster.topics["orders-clean"]
    assert (between.replication_factor, output.replication_factor) == (3, 3)
    assert output.config["max.message.bytes"] == DEFAULTS["max.message.bytes"]
    assert output.config["retention.ms"] == str(14 * DAY_MS), "as long as the window"
    assert between.config["retention.ms"] == "-1"
    cluster.topics["orders-raw-1"] = topic("orders-raw-1", copies=3)
    assert cluster.ensure(spec(LATER)).problems == ()


def test_without_inputs_an_output_is_kept_at_least_as_long_as_topics_usually_are() -> None:
    cluster = FakeTopics()
    cluster.ensure(spec(LATER, store={"window": {"maxAge": "1d", "alertBelow": "1h"}}))
    assert cluster.topics["orders-clean"].config["retention.ms"] == str(7 * DAY_MS)


def test_inputs_that_are_gone_bring_no_problem_of_the_other_topics() -> None:
    cluster = FakeTopics(topic("orders-raw-1", max_message_bytes=9_000_000))
    assert cluster.ensure(spec(LATER)).problems == ()
    del cluster.topics["orders-raw-1"]
    assert reasons(cluster.ensure(spec(LATER))) == [("NoInputTopic", False)]


def test_without_inputs_an_output_that_is_there_is_checked_too() -> None:
    cluster = FakeTopics(topic("orders-clean", 4))
    found = cluster.ensure(spec(LATER))
    assert not found.created
    assert reasons(found) == [("NoInputTopic", False), ("OutputRetentionTooShort", False)]
    assert cluster.topics["orders-clean"].partitions == 6


# -- a repartition topic that is there -------------------------------------------------------------


def between(partitions: int = 6, **config: Any) -> Topic:  # noqa: ANN401 # a topic's settings
    fitting = {"retention_ms": -1, "max_message_bytes": 1_049_100}
    return topic(BETWEEN, partitions, **{**fitting, **config})


@pytest.mark.parametrize(
    ("found", "reason", "told"),
    [
        (between(7), "WrongPartitions", "spec.repartition.topic.name"),
        (between(cleanup_policy="compact"), "Compacted", "cleanup.policy to delete"),
        (between(cleanup_policy="compact,delete"), "Compacted", "no worker has read"),
        (between(retention_ms=DAY_MS), "Expires", "retention.ms and its retention.bytes to -1"),
        (between(retention_bytes=1 << 30), "Expires", "stopped worker"),
        (
            between(message_timestamp_type="LogAppendTime"),
            "ReplacesTimestamps",
            "message.timestamp.type to CreateTime",
        ),
    ],
)
def test_a_topic_that_would_lose_or_alter_records_is_no_use(
    found: Topic, reason: str, told: str
) -> None:
    topics = FakeTopics(topic("a"), topic("b"), found).ensure(spec())
    assert reasons(topics) == [(f"RepartitionTopic{reason}", True)]
    assert told in topics.problems[0].message


def test_a_topic_that_takes_smaller_records_is_warned_of_with_the_value_to_set() -> None:
    small = between(max_message_bytes=1_048_588)
    found = FakeTopics(topic("a"), topic("b"), small).ensure(spec())
    assert reasons(found) == [("RepartitionMessagesTooSmall", False)]
    assert "to 1049100" in found.problems[0].message


def test_a_topic_that_someone_else_creates_meanwhile_is_checked_too() -> None:
    cluster = FakeTopics(topic("a"), topic("b"))
    cluster.someone_creates = between(9)
    assert reasons(cluster.ensure(spec())) == [("RepartitionTopicWrongPartitions", True)]


def test_an_output_from_before_there_were_routers_gets_as_many_partitions() -> None:
    cluster = FakeTopics(topic("a"), topic("b"), topic("orders-clean", 5, retention_ms=-1))
    assert cluster.ensure(spec()).problems == ()
    assert cluster.topics["orders-clean"].partitions == 6


def test_an_output_with_fewer_partitions_is_no_use() -> None:
    cluster = FakeTopics(
        topic("a"), topic("b"), between(), topic("orders-clean", 5, retention_ms=-1)
    )
    assert reasons(cluster.ensure(spec())) == [("OutputTopicTooFewPartitions", True)]


@pytest.mark.parametrize("kept", ["epochs", "filters", "owners", "repartition"])
def test_a_topic_that_another_stream_keeps_for_itself_is_named_as_an_input(kept: str) -> None:
    """A pattern takes it as soon as it exists, and its records then pass as if they were a user's."""
    name = f"sales-clean-{kept}"
    cluster = FakeTopics(topic("a"), topic(name))
    pattern = spec({"pattern": "(a|sales.*)"})
    assert reasons(cluster.ensure(pattern)) == [], "a user's own name"
    cluster.topics["sales-clean"] = topic("sales-clean")
    [found] = cluster.ensure(pattern).problems
    assert (found.reason, found.fatal) == ("InputOfAnotherStream", False)
    assert name in found.message


def test_fatal_problems_are_first() -> None:
    found = FakeTopics(
        topic("a"), topic("b"), between(max_message_bytes=9), topic("orders-clean", 5)
    ).ensure(spec())
    assert [each.fatal for each in found.problems] == [True, False, False]


def test_one_topic_with_routers_is_an_input_too() -> None:
    cluster = FakeTopics(topic("raw", 2))
    found = cluster.ensure(spec({"topic": "raw"}))
    assert (found.partitions, found.problems) == (6, ())


def test_a_growth_adds_partitions_to_every_topic_and_the_repartition_topic_is_last() -> None:
    cluster = FakeTopics(
        topic("a"), topic("b"), between(4), topic("orders-clean", 4, retention_ms=-1)
    )
    assert not cluster.ensure(spec()).problems
    assert cluster.grown == ["orders-clean", BETWEEN]
    assert not cluster.ensure(spec()).problems
    assert cluster.grown == ["orders-clean", BETWEEN]


def test_a_growth_without_the_right_to_add_partitions_is_named() -> None:
    cluster = FakeTopics(
        topic("a"), topic("b"), between(4), topic("orders-clean", 6, retention_ms=-1)
    )
    cluster.closed = {BETWEEN}
    found = cluster.ensure(spec())
    assert reasons(found) == [("RepartitionTopicTooFewPartitions", True)]
    assert "ACL ALTER" in found.problems[0].message


@pytest.mark.parametrize("setting", [{"partitions": 2}, {"cleanup_policy": "delete"}])
def test_an_epoch_log_that_would_lose_entries_is_no_use(setting: dict[str, Any]) -> None:
    told = {"partitions": 1, "cleanup_policy": "compact", **setting}
    log = topic("orders-clean-epochs", told.pop("partitions"), **told)
    assert reasons(FakeTopics(topic("a"), topic("b"), log).ensure(spec())) == [
        ("EpochLogExpires", True)
    ]
