"""A drain in two stages: what was in the inputs is routed, then it is read by workers."""

from dataclasses import dataclass, field
from typing import Any

from dedupe_crds.manifest import parse_manifest
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.offsets import TopicOffsets
from dedupe_kafka.topic import Topic
from dedupe_local.run.routed_drain import RoutedDrain
from tests.unit.crds.manifests import changed
from tests.unit.local.run.views import status

INPUTS = {"spec.input": {"topics": ["a", "b"]}, "spec.repartition": {"partitions": 2}}
STREAM = parse_manifest(changed(INPUTS), "-")


@dataclass
class FakeCluster:
    """The ends of topics, and what the routers' group has committed."""

    ends: dict[str, dict[int, int]]
    routed: dict[str, dict[int, int]] = field(default_factory=dict)
    away: bool = False
    asked: int = 0

    def topic(self, name: str) -> Topic:
        return Topic(name=name, partitions=1, replication_factor=1, config={})

    def offsets(self, name: str) -> TopicOffsets:
        return TopicOffsets(topic=name, id="", lows={}, ends=self.ends[name])

    settled_offsets = offsets

    def committed(self, group: str, name: str) -> dict[int, int]:
        assert group == "default.orders.routers"
        self.asked += 1
        if self.away:
            raise BrokerUnavailable("no answer")
        return self.routed.get(name, {})


def drain_of(cluster: FakeCluster) -> RoutedDrain:
    known: Any = cluster
    return RoutedDrain(known, STREAM, 120.0, now=0.0)


def fake() -> FakeCluster:
    ends = {"a": {0: 10, 1: 0}, "b": {0: 5}, "orders-clean-repartition": {0: 9, 1: 8}}
    return FakeCluster(ends)


def test_workers_count_once_all_is_routed() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    drain.observe([status(99), status(99)], now=1)
    assert not drain.done
    assert drain.missing() == [
        "input a/0 is routed up to 0 of 10",
        "input b/0 is routed up to 0 of 5",
    ]
    cluster.routed = {"a": {0: 10}, "b": {0: 5}}
    drain.observe([status(9), status(7)], now=3)
    assert (drain.done, drain.missing()) == (False, ["partition 1 is at offset 7 of 8"])
    drain.observe([status(9), status(8)], now=4)
    assert drain.done


def test_records_that_come_later_are_not_waited_for() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    cluster.ends["a"] = {0: 1000, 1: 7}
    cluster.routed = {"a": {0: 10}, "b": {0: 5}}
    drain.observe([status(9), status(8)], now=1)
    assert drain.done


def test_kafka_is_asked_once_a_second() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    for tenths in range(30):
        drain.observe([None, None], now=tenths / 10)
    assert cluster.asked == 2 * 3


def test_routers_that_make_no_progress_stall() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    cluster.routed = {"a": {0: 4}}
    drain.observe([None, None], now=100)
    cluster.routed = {"a": {0: 5}}
    drain.observe([None, None], now=110)
    cluster.away = True
    drain.observe([None, None], now=229)
    assert drain.stalled(229) == []
    drain.observe([None, None], now=231)
    assert drain.stalled(231) == [
        "input a/0 is routed up to 5 of 10",
        "input b/0 is routed up to 0 of 5",
    ]


def test_workers_stall_as_without_routers() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    cluster.routed = {"a": {0: 10}, "b": {0: 5}}
    drain.observe([status(1), status(8)], now=1)
    assert drain.stalled(100) == []
    assert drain.stalled(122) == ["partition 0 is at offset 1 of 9"]
