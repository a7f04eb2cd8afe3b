"""Where a router starts, from what is committed and what Kafka has."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from dedupe_growth.entries import RouterStart
from dedupe_growth.epochs import NO_EPOCH
from dedupe_kafka.offsets import TopicOffsets
from dedupe_router.errors import InputTruncated, RouterOffsetsLost
from dedupe_router.start import Start, StartFinder
from tests.unit.worker.still_clock import StillClock

RAW = TopicPartition("raw", 0)


@dataclass
class FakeKafka:
    """A group's offset of raw/0, and the partition, as consumer and cluster show them."""

    committed_at: int = -1001
    metadata: str | None = None
    low: int = 0
    end: int = 100
    id: str = "id-1"
    warned: dict[str, str] = field(default_factory=dict)
    handed_over: RouterStart | None = None

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 10
        return [
            TopicPartition(each.topic, each.partition, self.committed_at, self.metadata or "")
            for each in wanted
        ]

    def offsets(self, name: str) -> TopicOffsets:
        return TopicOffsets(topic=name, id=self.id, lows={0: self.low}, ends={0: self.end})

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(names, 1)

    def begun(self, topic: str, partition: int) -> RouterStart | None:
        assert (topic, partition) == (RAW.topic, RAW.partition)
        return self.handed_over

    def finder(self) -> StartFinder:
        both: Any = self
        return StartFinder(both, both, StillClock(), self.warned.__setitem__, self.begun)

    def start(self, wanted: Sequence[TopicPartition] = (RAW,)) -> Start:
        (found,) = self.finder().of(wanted)
        return found


def test_what_was_never_read_is_read_from_its_beginning() -> None:
    found = FakeKafka(low=3).start()
    assert (found.offset, found.committed, found.topic_id) == (3, -1, "id-1")


@pytest.mark.parametrize(("metadata", "epoch"), [("id-1", 0), ("id-1:0", 0), ("id-1:7", 7)])
def test_it_starts_after_what_is_committed(metadata: str, epoch: int) -> None:
    found = FakeKafka(committed_at=42, metadata=metadata).start()
    assert found.epoch == epoch
    assert (found.offset, found.committed) == (42, 42)


HANDED_OVER = RouterStart(offset=30, topic_id="id-1")


def test_it_starts_where_a_worker_has_handed_the_input_over() -> None:
    found = FakeKafka(handed_over=HANDED_OVER).start()
    assert (found.offset, found.committed, found.epoch) == (30, -1, NO_EPOCH)


def test_what_routers_have_committed_counts_more() -> None:
    kafka = FakeKafka(handed_over=HANDED_OVER, committed_at=42, metadata="id-1:1")
    assert kafka.start().offset == 42


def test_a_topic_that_was_created_again_since_the_hand_over_is_read_from_its_beginning() -> None:
    kafka = FakeKafka(handed_over=HANDED_OVER, id="id-2", low=1)
    assert (kafka.start().offset, kafka.start().committed) == (1, -1)
    assert "InputTopicReplaced" in kafka.warned


def test_what_expired_since_the_hand_over_is_named() -> None:
    kafka = FakeKafka(handed_over=HANDED_OVER, low=50)
    assert kafka.start().offset == 50
    assert "20 offsets" in kafka.warned["InputExpired"]


def test_an_offset_that_a_user_has_set_has_no_topic_id() -> None:
    assert FakeKafka(committed_at=42).start().offset == 42


def test_another_topic_of_the_name_is_read_from_its_beginning() -> None:
    kafka = FakeKafka(committed_at=42, metadata="id-0", low=1)
    assert kafka.start().offset == 1
    assert "InputTopicReplaced" in kafka.warned


def test_what_expired_unread_is_named() -> None:
    kafka = FakeKafka(committed_at=42, metadata="id-1", low=50)
    assert kafka.start().offset == 50
    assert "8 offsets were deleted" in kafka.warned["InputExpired"]


def test_an_input_that_has_lost_its_end_is_not_read() -> None:
    with pytest.raises(InputTruncated, match="ends at 100, and was read up to 142"):
        FakeKafka(committed_at=142, metadata="id-1").start()


def test_lost_offsets_of_a_group_that_has_routed_are_an_error() -> None:
    kafka = FakeKafka()
    kafka.finder().require_offsets(["raw"], routed=False)
    kafka.finder().require_offsets([], routed=True)
    with pytest.raises(RouterOffsetsLost, match="no committed offset"):
        kafka.finder().require_offsets(["raw"], routed=True)
    kafka.committed_at = 0
    kafka.finder().require_offsets(["raw"], routed=True)
