"""What a router sees of the stream's topics."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_kafka.errors import BrokerUnavailable, NoLeader, StreamError
from dedupe_kafka.offsets import TopicOffsets
from dedupe_router.config import RouterConfig
from dedupe_router.errors import InputTopicReplaced, RepartitionTopicReplaced
from dedupe_router.state import RouterState
from dedupe_router.watch import StreamWatch
from tests.unit.crds.manifests import changed
from tests.unit.router.group import adoption_of
from tests.unit.worker.still_clock import StillClock

STAGE = {"partitions": 2, "topic": {"maxBytes": "1Mi"}}


@dataclass
class FakeCluster:
    ids: dict[str, str] = field(default_factory=lambda: {"raw": "id-1"})
    ends: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    lows: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    failed: dict[int, StreamError] = field(default_factory=dict)
    asked: int = 0

    def topic_names(self) -> list[str]:
        return list(self.ids)

    def topic_ids(self, names: Collection[str]) -> dict[str, str]:
        self.asked += 1
        return {name: self.ids[name] for name in names if name in self.ids}

    def offsets_of(self, name: str, *, reads: bool) -> TopicOffsets:
        assert name == "orders-clean-repartition"
        assert not reads, "routers write it only"
        ends = {each: end for each, end in self.ends.items() if each not in self.failed}
        return TopicOffsets(topic=name, id="r-1", lows=self.lows, ends=ends, failed=self.failed)


@dataclass
class Seen:
    """A watch, and the cluster that it sees."""

    input: dict[str, Any]
    cluster: FakeCluster = field(default_factory=FakeCluster)
    clock: StillClock = field(default_factory=StillClock)

    def __post_init__(self) -> None:
        told = {"spec.input": self.input, "spec.repartition": STAGE}
        stream = parse_manifest(changed(told), "-")
        assert stream.spec.repartition
        config = RouterConfig(
            stream=stream, router=0, repartition=stream.spec.repartition, properties={}
        )
        self.state = RouterState(stream, 0, self.clock)
        cluster: Any = self.cluster
        self.watch = StreamWatch(
            config, cluster, adoption_of(stream.spec, partitions=2), self.state, self.clock
        )
        self.watch.check()


def test_it_asks_every_few_seconds() -> None:
    seen = Seen({"topic": "raw"})
    asked = seen.cluster.asked
    seen.watch.check_if_due()
    assert seen.cluster.asked == asked
    seen.clock.sleep(10)
    seen.watch.check_if_due()
    assert seen.cluster.asked == asked + 1


def test_a_topic_that_vanishes_is_named_and_one_that_comes_is_read() -> None:
    seen = Seen({"topics": ["raw", "more"]})
    assert list(seen.watch.topics) == ["raw"]
    assert "more: no such topic" in seen.state.warnings["InputTopicMissing"]
    seen.cluster.ids["more"] = "id-2"
    seen.watch.check()
    assert list(seen.watch.topics) == ["more", "raw"]
    assert seen.state.warnings == {}
    del seen.cluster.ids["raw"]
    seen.watch.check()
    assert list(seen.watch.topics) == ["more"]
    assert "raw: no such topic" in seen.state.warnings["InputTopicMissing"]


def test_a_pattern_finds_topics_as_they_come_and_names_those_that_vanish() -> None:
    seen = Seen({"pattern": "raw.*"})
    seen.cluster.ids |= {"raw-2": "id-2", "other": "id-3", "orders-clean": "id-4"}
    seen.watch.check()
    assert list(seen.watch.topics) == ["raw", "raw-2"]
    del seen.cluster.ids["raw-2"]
    seen.watch.check()
    assert "raw-2: no such topic" in seen.state.warnings["InputTopicMissing"]


def test_without_any_topic_it_waits_by_name() -> None:
    seen = Seen({"pattern": "nothing-.*"}, FakeCluster(ids={}))
    assert (list(seen.watch.topics), list(seen.state.warnings)) == ([], ["NoInputTopic"])


def test_a_former_input_stays_subscribed_and_is_not_missed() -> None:
    """The log lists `raw`: its offsets are kept, and get each new epoch."""
    seen = Seen({"topic": "more"}, FakeCluster(ids={"raw": "id-1", "more": "id-2"}))
    assert list(seen.watch.topics) == ["more", "raw"]
    seen.cluster.ids["raw"] = "id-3"
    seen.watch.check()
    del seen.cluster.ids["raw"]
    seen.watch.check()
    assert (list(seen.watch.topics), seen.state.warnings) == (["more"], {})


def test_another_topic_of_the_name_ends_the_session() -> None:
    seen = Seen({"topic": "raw"})
    seen.cluster.ids["raw"] = "id-2"
    with pytest.raises(InputTopicReplaced):
        seen.watch.check()


def test_another_number_of_partitions_is_refused() -> None:
    seen = Seen({"topic": "raw"})
    seen.cluster.lows = seen.cluster.ends = {0: 0, 1: 0, 2: 0}
    seen.watch.check()  # a growth has added one, and no epoch routes to it yet
    seen.cluster.ends = {0: 0}
    with pytest.raises(RepartitionTopicReplaced, match="has 1 partitions"):
        seen.watch.check()


def test_a_topic_at_its_limit_is_full_until_there_is_room_again() -> None:
    seen = Seen({"topic": "raw"})
    seen.state.tally.routed, seen.state.tally.bytes = 10, 400  # 100 bytes each, with all
    seen.cluster.ends = {0: 10_000, 1: 0}
    seen.watch.check()
    assert seen.watch.full == ""
    assert seen.state.output
    assert seen.state.output.held_bytes == 1_000_000
    seen.cluster.ends = {0: 10_000, 1: 1_000}
    seen.watch.check()
    assert "spec.repartition.topic.maxBytes is 1Mi" in seen.watch.full
    seen.cluster.lows = {0: 1_000, 1: 0}
    seen.watch.check()
    assert seen.watch.full
    seen.cluster.lows = {0: 2_000, 1: 0}
    seen.watch.check()
    assert not seen.watch.full


def test_an_answer_ends_the_error_of_a_client_at_rest() -> None:
    seen = Seen({"topic": "raw"})
    seen.state.report_client_error(BrokerUnavailable("disconnected"))
    assert seen.state.problem
    seen.watch.check()
    assert not seen.state.problem


def test_it_says_if_records_were_ever_routed() -> None:
    seen = Seen({"topic": "raw"})
    assert not seen.watch.has_routed
    seen.cluster.ends, seen.cluster.lows = {0: 5, 1: 0}, {0: 5, 1: 0}
    seen.watch.check()
    assert seen.watch.has_routed


def test_a_partition_of_the_repartition_topic_without_a_leader_is_named() -> None:
    seen = Seen({"topic": "raw"})
    seen.cluster.failed = {1: NoLeader("orders-clean-repartition/1 has no leader")}
    seen.watch.check()
    assert seen.state.warnings == {"NoLeader": "orders-clean-repartition/1 has no leader"}
    with pytest.raises(NoLeader):
        _ = seen.watch.has_routed  # records may be in it
    seen.cluster.ends = {0: 5, 1: 0}
    seen.watch.check()
    assert seen.watch.has_routed
    seen.cluster.failed = {}
    seen.watch.check()
    assert seen.state.warnings == {}
