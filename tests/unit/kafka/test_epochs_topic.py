"""The topic of the epoch log, created and checked."""

from dataclasses import dataclass

import pytest

from dedupe_kafka.epochs_topic import check_unused, ensure_epochs, epochs_topic
from dedupe_kafka.errors import NotAuthorized
from dedupe_kafka.offsets import TopicOffsets
from dedupe_kafka.topic import Topic
from tests.unit.kafka.test_repartition_topic import FakeTopics, topic

NAME = "orders-clean-epochs"
INPUT = topic("orders", 6, 3, min_insync_replicas=2)


def ensure(there: FakeTopics) -> list[str]:
    return [each.reason for each in ensure_epochs(there, "orders-clean", INPUT)]


def test_its_name_follows_from_the_output() -> None:
    assert epochs_topic("orders-clean") == NAME


def test_it_is_created_with_one_partition_that_keeps_all_entries() -> None:
    there = FakeTopics()
    assert ensure(there) == []
    made = there.topics[NAME]
    assert (made.partitions, made.replication_factor) == (1, 3)
    assert (made.config["cleanup.policy"], made.config["min.insync.replicas"]) == ("compact", "2")
    assert ensure(there) == [], "it is there now"
    assert there.created == [NAME]


def test_one_of_a_user_with_fewer_copies_is_used_with_a_warning() -> None:
    (problem,) = ensure_epochs(
        FakeTopics(topic(NAME, 1, 1, cleanup_policy="compact")), "orders-clean", INPUT
    )
    assert (problem.reason, problem.fatal) == ("EpochLogLessSafe", False)


@pytest.mark.parametrize(
    ("policy", "partitions"),
    [("delete", 1), ("compact,delete", 1), ("compact", 2)],
)
def test_one_that_may_lose_entries_is_refused(policy: str, partitions: int) -> None:
    found = topic(NAME, partitions, 3, cleanup_policy=policy, min_insync_replicas=2)
    (problem,) = ensure_epochs(FakeTopics(found), "orders-clean", INPUT)
    assert (problem.reason, problem.fatal) == ("EpochLogExpires", True)
    assert NAME in problem.message
    assert f"it has {partitions} and {policy}" in problem.message


@pytest.mark.parametrize(("policy", "problems"), [("compact", []), ("delete", ["EpochLogExpires"])])
def test_one_that_someone_else_creates_at_the_same_time_is_checked(
    policy: str, problems: list[str]
) -> None:
    there = FakeTopics()
    there.someone_creates = topic(NAME, 1, 3, cleanup_policy=policy, min_insync_replicas=2)
    assert ensure(there) == problems


def test_the_settings_of_the_inputs_decide_how_safe_it_is() -> None:
    there = FakeTopics()
    inputs = Topic(
        name="a", partitions=9, replication_factor=1, config={"min.insync.replicas": "1"}
    )
    ensure_epochs(there, "orders-clean", inputs)
    made = there.topics[NAME]
    assert (made.replication_factor, made.config["min.insync.replicas"]) == (1, "1")


@dataclass
class FakeLog:
    """A cluster with an epoch log of so many entries; None if there is none."""

    entries: int | None
    closed: bool = False

    def topic(self, name: str) -> Topic | None:
        if self.closed:
            raise NotAuthorized(name)
        return topic(name) if self.entries is not None else None

    def offsets(self, name: str) -> TopicOffsets:
        return TopicOffsets(topic=name, id="a", lows={0: 0}, ends={0: self.entries or 0})


@pytest.mark.parametrize("there", [FakeLog(None), FakeLog(0), FakeLog(3, closed=True)])
def test_a_stream_without_routers_may_write_where_none_have_written(there: FakeLog) -> None:
    assert check_unused(there, "orders-clean") == []


def test_a_stream_without_routers_is_refused_the_output_of_one_that_has_them() -> None:
    (problem,) = check_unused(FakeLog(1), "orders-clean")
    assert (problem.reason, problem.fatal) == ("OutputHasRouters", True)
    assert NAME in problem.message
