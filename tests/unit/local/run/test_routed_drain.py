"""A drain in two stages: what was in the inputs is routed, then it is read by workers."""

from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import IsolationLevel

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.flow import Flow
from dedupe_crds.status.router import RouterPhase
from dedupe_kafka.errors import BrokerUnavailable, NoLeader, StreamError
from dedupe_kafka.offsets import Place, TopicOffsets
from dedupe_kafka.topic import Topic
from dedupe_local.run.routed_drain import RoutedDrain
from dedupe_local.run.router_process import RouterView
from tests.unit.crds.manifests import changed
from tests.unit.local.run.test_router_rows import status as router_status
from tests.unit.local.run.test_router_rows import view as router_view
from tests.unit.local.run.views import status

INPUTS = {"spec.input": {"topics": ["a", "b"]}, "spec.repartition": {"partitions": 2}}
STREAM = parse_manifest(changed(INPUTS), "-")
BETWEEN = "orders-clean-repartition"
ALL: dict[Place, int] = {("a", 0): 10, ("b", 0): 5}


@dataclass
class FakeCluster:
    """The ends of topics, and what the routers' group has committed."""

    ends: dict[str, dict[int, int]]
    routed: dict[Place, int] = field(default_factory=dict)
    away: bool = False
    failed: dict[Place, StreamError] = field(default_factory=dict)
    asked: list[list[Place]] = field(default_factory=list)

    def inputs(self, spec: Flow) -> list[Topic]:
        return [
            Topic(name=name, partitions=1, replication_factor=1, config={})
            for name in spec.input.names
        ]

    def offsets(
        self, name: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> TopicOffsets:
        assert isolation is IsolationLevel.READ_UNCOMMITTED, "what it hides is not read yet"
        if name not in self.ends:
            raise BrokerUnavailable("no answer")
        ends = self.ends[name]
        return TopicOffsets(topic=name, id="", lows=dict.fromkeys(ends, 0), ends=ends)

    def offsets_of(
        self, name: str, partitions: list[int] | None, isolation: IsolationLevel
    ) -> TopicOffsets:
        found = self.offsets(name, isolation)
        failed = {number: why for (topic, number), why in self.failed.items() if topic == name}
        ends = {
            number: end
            for number, end in found.ends.items()
            if number not in failed and (partitions is None or number in partitions)
        }
        return replace(found, ends=ends, failed=failed)

    def high_watermarks(self, name: str) -> dict[int, int]:
        return self.offsets(name, IsolationLevel.READ_UNCOMMITTED).ends

    def committed_now(self, group: str, places: list[Place]) -> dict[Place, int]:
        assert group == "default.orders.routers"
        self.asked.append(places)
        if self.away:
            raise BrokerUnavailable("no answer")
        return {place: self.routed.get(place, 0) for place in places}


def drain_of(cluster: FakeCluster, *routers: RouterView) -> RoutedDrain:
    known: Any = cluster
    return RoutedDrain(known, STREAM, 120.0, now=0.0, routers=lambda: routers)


def fake() -> FakeCluster:
    ends = {"a": {0: 10, 1: 0}, "b": {0: 5}, BETWEEN: {0: 9, 1: 8}}
    return FakeCluster(ends)


def test_workers_count_once_all_is_routed() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    drain.observe([status(99), status(99)], now=1)
    assert not drain.done
    assert drain.missing() == [
        "input a, partition 0 is routed up to offset 0 of 10",
        "input b, partition 0 is routed up to offset 0 of 5",
    ]
    cluster.routed = ALL
    drain.observe([status(9), status(7)], now=3)
    assert (drain.done, drain.missing()) == (False, ["partition 1 is at offset 7 of 8"])
    drain.observe([status(9), status(8)], now=4)
    assert drain.done


def test_records_that_come_later_are_not_waited_for() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    cluster.ends["a"] = {0: 1000, 1: 7}
    cluster.routed = ALL
    drain.observe([status(9), status(8)], now=1)
    assert drain.done


def test_kafka_is_asked_once_a_second_for_what_is_left() -> None:
    cluster = fake()
    cluster.routed = {("a", 0): 10}
    drain = drain_of(cluster)
    for tenths in range(30):
        drain.observe([None, None], now=tenths / 10)
    assert cluster.asked == [[("a", 0), ("b", 0)], [("b", 0)], [("b", 0)]]


def test_routers_that_make_no_progress_stall() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    cluster.routed = {("a", 0): 4}
    drain.observe([None, None], now=100)
    cluster.routed = {("a", 0): 5}
    drain.observe([None, None], now=110)
    cluster.away = True
    drain.observe([None, None], now=229)
    assert drain.stalled(229) == []
    drain.observe([None, None], now=231)
    assert drain.stalled(231) == [
        "input a, partition 0 is routed up to offset 5 of 10",
        "input b, partition 0 is routed up to offset 0 of 5",
    ]


def test_workers_stall_as_without_routers() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    cluster.routed = ALL
    drain.observe([status(1), status(8)], now=1)
    assert drain.stalled(100) == []
    assert drain.stalled(122) == ["partition 0 is at offset 1 of 9"]


def test_routers_that_pause_wait_for_workers_that_make_progress() -> None:
    cluster = fake()
    full = router_status(phase=RouterPhase.PAUSED).model_copy(
        update={"reason": "RepartitionTopicFull", "message": "it holds 1Gi"}
    )
    drain = drain_of(cluster, router_view(0, full))
    for now in (50, 100, 150):
        drain.observe([status(now), status(0)], now)
        assert drain.stalled(now) == []
    drain.observe([status(150), status(0)], now=271)
    assert drain.stalled(271)[-1] == "router 0: RepartitionTopicFull: it holds 1Gi"


def test_workers_do_not_hide_that_routers_are_stuck() -> None:
    cluster = fake()
    drain = drain_of(cluster, router_view(0, router_status(), last_exit="was killed by SIGKILL"))
    for now in range(0, 130, 10):
        drain.observe([status(now), status(now)], now)
    assert drain.stalled(130)[-1] == "router 0: was killed by SIGKILL"


def test_a_repartition_topic_whose_end_is_not_known_stalls() -> None:
    cluster = fake()
    drain = drain_of(cluster)
    cluster.routed, drain_ends = ALL, cluster.ends.pop(BETWEEN)
    drain.observe([status(9), status(8)], now=1)
    assert drain.missing() == [f"the end of {BETWEEN} is not known"]
    assert drain.stalled(121) == drain.missing()
    cluster.ends[BETWEEN] = drain_ends
    drain.observe([status(9), status(8)], now=122)
    assert drain.done


def test_inputs_without_records_need_no_router() -> None:
    cluster = fake()
    cluster.ends |= {"a": {0: 0}, "b": {0: 0}}
    drain = drain_of(cluster)
    drain.observe([status(9), status(8)], now=1)
    assert (drain.done, cluster.asked) == (True, [])


def test_a_partition_whose_end_is_not_known_is_waited_for_by_name() -> None:
    """The others are routed meanwhile."""
    cluster = fake()
    cluster.failed = {("a", 1): NoLeader("a/1 has no leader")}
    drain = drain_of(cluster)
    cluster.routed = ALL
    drain.observe([status(9), status(8)], now=1)
    assert not drain.done
    assert drain.missing() == [
        "the ends of some partitions are not known: NoLeader: a/1 has no leader"
    ]
    assert drain.stalled(121) == drain.missing()
    cluster.failed, cluster.ends["a"] = {}, {0: 20, 1: 3}
    drain.observe([status(9), status(8)], now=122)
    assert drain.missing() == ["input a, partition 1 is routed up to offset 0 of 3"]
    cluster.routed = {**ALL, ("a", 1): 3}
    drain.observe([status(9), status(8)], now=124)
    assert drain.done
