"""An open transaction in an input is told once it has held back a partition for a minute."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import IsolationLevel

from dedupe_crds.manifest import parse_manifest
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.offsets import TopicOffsets
from dedupe_router.held import HeldInputs
from dedupe_router.state import RouterState
from tests.unit.crds.manifests import changed
from tests.unit.worker.still_clock import StillClock

STREAM = parse_manifest(
    changed({"spec.input": {"topics": ["raw"]}, "spec.repartition": {"partitions": 2}}), "-"
)
FIRST, SECOND = ("raw", 0), ("raw", 1)


@dataclass
class FakeCluster:
    stable: dict[int, int] = field(default_factory=lambda: {0: 10, 1: 10})
    ends: dict[int, int] = field(default_factory=lambda: {0: 15, 1: 15})
    answers: bool = True

    def offsets_of(
        self,
        name: str,
        partitions: set[int],
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> TopicOffsets:
        if not self.answers:
            raise BrokerUnavailable("no answer")
        committed = isolation is IsolationLevel.READ_COMMITTED
        every = self.stable if committed else self.ends
        ends = {number: every[number] for number in partitions}
        return TopicOffsets(topic=name, id="id", lows={}, ends=ends)


@dataclass
class Seen:
    cluster: FakeCluster = field(default_factory=FakeCluster)
    clock: StillClock = field(default_factory=StillClock)

    def __post_init__(self) -> None:
        self.state = RouterState(STREAM, 0, self.clock)
        cluster: Any = self.cluster
        self.held = HeldInputs(cluster, "kafka:9092", self.state, self.clock)

    def told(self, behind: dict[tuple[str, int], int], seconds: float) -> str:
        """Return what is told after so many seconds at these offsets."""
        for _ in range(int(seconds)):
            self.clock.sleep(1)
            self.held.check(behind)
        return self.state.warnings.get("OpenTransaction", "")


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_each_partition_is_named_with_its_offset_and_since_when(seen: Seen) -> None:
    assert not seen.told({FIRST: 10, SECOND: 10}, 59)
    told = seen.told({FIRST: 10, SECOND: 10}, 2)
    assert "since 1970-01-01 00:16 UTC: raw/0" in told
    assert "raw/1: a transaction of another producer is open since offset 10" in told


def test_it_is_over_when_the_partition_moves(seen: Seen) -> None:
    assert seen.told({FIRST: 10}, 70)
    assert not seen.told({FIRST: 12}, 1)
    assert seen.told({FIRST: 12}, 70)
    assert not seen.told({}, 1)


def test_one_that_moves_within_each_minute_is_not_told(seen: Seen) -> None:
    for offset in range(10, 20):
        assert not seen.told({FIRST: offset}, 50)


def test_a_partition_that_is_only_slow_is_not_told(seen: Seen) -> None:
    seen.cluster.stable[0] = 11
    assert not seen.told({FIRST: 10}, 90)


def test_brokers_that_do_not_answer_leave_it_as_it_is(seen: Seen) -> None:
    seen.cluster.answers = False
    assert not seen.told({FIRST: 10}, 90)
    seen.cluster.answers = True
    before = seen.told({FIRST: 10}, 10)
    seen.cluster.answers = False
    assert before == seen.told({FIRST: 10}, 30)
