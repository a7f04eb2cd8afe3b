"""The topics of a stream to whose input partitions are added."""

from collections.abc import Mapping

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import Spec
from dedupe_kafka.errors import NotAuthorized
from dedupe_kafka.stream_topics import ensure_topics
from dedupe_kafka.topic import Topic, config_for
from tests.unit.crds.manifests import changed
from tests.unit.kafka.configs import CONFIG

ROUTED = {"spec.duplicates": {"policy": "Topic", "topic": "twice"}}


class FakeTopics:
    """Topics by name; `refuses` to add partitions."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = partitions
        self.refuses = False

    def topic(self, name: str) -> Topic | None:
        if name not in self.partitions:
            return None
        config = {**CONFIG, "max.message.bytes": "2000000"}
        return Topic(
            name=name, partitions=self.partitions[name], replication_factor=1, config=config
        )

    def wait_for(self, name: str) -> Topic:
        found = self.topic(name)
        assert found is not None
        return found

    def create(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> bool:
        assert (replication_factor, config["cleanup.policy"]) == (1, "delete")
        self.partitions[name] = partitions
        return True

    def grow(self, name: str, partitions: int) -> None:
        if self.refuses:
            raise NotAuthorized("no")
        assert partitions > self.partitions[name]
        self.partitions[name] = partitions


def spec(*, accepts: bool) -> Spec:
    added = "Accept" if accepts else "Wait"
    told = changed({**ROUTED, "spec.input.addedPartitions": added})
    return parse_manifest(told, "a test").spec


def source(partitions: int) -> Topic:
    return Topic(name="raw", partitions=partitions, replication_factor=1, config=CONFIG)


def names(wanted: Spec) -> list[str]:
    return [wanted.output.topic, "twice", f"{wanted.output.topic}-owners"]


def test_what_was_added_waits_and_the_other_topics_are_as_they_should_be() -> None:
    wanted = spec(accepts=False)
    topics = FakeTopics(**dict.fromkeys(names(wanted), 2))
    found = ensure_topics(topics, wanted, source(4), known=2)
    assert (found.partitions, found.served, found.problems) == (4, 2, ())
    assert set(topics.partitions.values()) == {2}


def test_what_is_accepted_gets_partitions_in_all_topics() -> None:
    wanted = spec(accepts=True)
    topics = FakeTopics(**dict.fromkeys(names(wanted), 2))
    found = ensure_topics(topics, wanted, source(4), known=2)
    assert (found.partitions, found.served, found.problems) == (4, 4, ())
    assert set(topics.partitions.values()) == {4}


def test_a_topic_that_may_not_grow_is_a_problem_that_stops_what_was_accepted() -> None:
    wanted = spec(accepts=True)
    topics = FakeTopics(**dict.fromkeys(names(wanted), 2))
    topics.refuses = True
    found = ensure_topics(topics, wanted, source(4), known=2)
    assert [(each.reason, each.fatal) for each in found.problems] == [
        ("OutputTopicTooFewPartitions", True)
    ]


@pytest.mark.parametrize("accepts", [True, False])
def test_a_new_stream_has_all_partitions_and_changes_no_topic(accepts: bool) -> None:
    """An output that others made with fewer partitions is not the product's to change."""
    wanted = spec(accepts=accepts)
    topics = FakeTopics(**{wanted.output.topic: 2})
    found = ensure_topics(topics, wanted, source(4), known=0)
    assert found.served == 4
    assert found.problems[0].reason == "OutputTopicTooFewPartitions"
    assert topics.partitions[wanted.output.topic] == 2


def test_a_new_output_has_the_settings_of_the_input() -> None:
    wanted = spec(accepts=False)
    topics = FakeTopics()
    assert ensure_topics(topics, wanted, source(4), known=0).created
    assert set(topics.partitions.values()) == {4}
    assert config_for(source(4), wanted.store.window.max_age)["retention.ms"] == "-1"
