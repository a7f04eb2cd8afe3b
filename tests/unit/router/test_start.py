"""Where a router starts, from what is committed and what Kafka has."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from dedupe_growth.entries import RouterStart
from dedupe_growth.epochs import NO_EPOCH
from dedupe_kafka.errors import NoLeader, NotAuthorized, StreamError, TopicMissing
from dedupe_kafka.fetch_errors import InputTruncated
from dedupe_kafka.offsets import TopicOffsets
from dedupe_router.errors import RouterOffsetsLost
from dedupe_router.start import Start, StartFinder
from tests.unit.worker.still_clock import StillClock

RAW = TopicPartition("raw", 0)
RAW_0 = ("raw", 0)


class Refused:
    """A committed offset that Kafka does not tell."""

    def __init__(self, of: TopicPartition, error: KafkaError) -> None:
        self.topic, self.partition, self.offset = of.topic, of.partition, -1001
        self.metadata, self.error = of.metadata, error


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
    failed: dict[int, StreamError] = field(default_factory=dict)
    refused: KafkaError | None = None
    former: bool = False

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 10
        return [self.committed_of(each) for each in wanted]

    def committed_of(self, each: TopicPartition) -> Any:  # noqa: ANN401 (one whose `error` can be set)
        found = TopicPartition(each.topic, each.partition, self.committed_at, self.metadata or "")
        return found if self.refused is None else Refused(found, self.refused)

    def offsets_of(self, name: str, partitions: Collection[int]) -> TopicOffsets:
        known = set(partitions) - self.failed.keys()
        lows, ends = dict.fromkeys(known, self.low), dict.fromkeys(known, self.end)
        return TopicOffsets(topic=name, id=self.id, lows=lows, ends=ends, failed=self.failed)

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(names, 1)

    def begun(self, topic: str, partition: int) -> RouterStart | None:
        assert (topic, partition) == (RAW.topic, RAW.partition)
        return self.handed_over

    def is_former(self, topic: str) -> bool:
        assert topic == RAW.topic
        return self.former

    def finder(self) -> StartFinder:
        both: Any = self
        return StartFinder(both, both, StillClock(), self.warned.__setitem__, both)

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


def test_an_input_that_has_lost_its_end_is_held() -> None:
    held_by = FakeKafka(committed_at=142, metadata="id-1").start().held_by
    assert isinstance(held_by, InputTruncated)
    assert "raw/0 ends at 100, and was read up to 142" in str(held_by)


def test_a_partition_without_an_answer_is_held_and_the_others_begin() -> None:
    kafka = FakeKafka(committed_at=42, metadata="id-1")
    kafka.failed = {0: NoLeader("raw/0 has no leader")}
    assert kafka.start().held_by is kafka.failed[0]
    kafka.failed = {1: NoLeader("raw/1 has no leader")}
    assert kafka.start().held_by is None


def test_a_refused_offset_holds_its_partition() -> None:
    kafka = FakeKafka(refused=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    held_by = kafka.start().held_by
    assert isinstance(held_by, NotAuthorized)
    assert "raw/0" in str(held_by)
    with pytest.raises(NotAuthorized):  # it is not known that no offset is committed
        kafka.finder().require_offsets(["raw"], routed=True)


def test_lost_offsets_of_a_group_that_has_routed_are_an_error() -> None:
    kafka = FakeKafka()
    kafka.finder().require_offsets(["raw"], routed=False)
    kafka.finder().require_offsets([], routed=True)
    with pytest.raises(RouterOffsetsLost, match="no committed offset"):
        kafka.finder().require_offsets(["raw"], routed=True)
    kafka.committed_at = 0
    kafka.finder().require_offsets(["raw"], routed=True)


@pytest.mark.parametrize(
    "kafka",
    [
        FakeKafka(low=50),
        FakeKafka(end=10),
        FakeKafka(id="id-2"),
        FakeKafka(failed={0: NoLeader("raw/0 has no leader")}),
    ],
)
def test_the_offset_of_a_former_input_is_kept_as_it_is(kafka: FakeKafka) -> None:
    """Say what it lost, and whether it is another topic now, when it is an input again."""
    kafka.former, kafka.committed_at, kafka.metadata = True, 42, "id-1:3"
    assert kafka.start() == Start(RAW_0, 42, 42, "id-1", 3, is_former=True)
    assert not kafka.warned


def test_a_former_input_that_was_never_read_begins_where_it_would() -> None:
    kafka = FakeKafka(former=True, low=3)
    assert kafka.start() == Start(RAW_0, 3, -1, "id-1", NO_EPOCH, is_former=True)
    kafka.handed_over = RouterStart(offset=1, topic_id="id-0")
    assert kafka.start() == Start(RAW_0, 1, -1, "id-0", NO_EPOCH, is_former=True)


@pytest.mark.parametrize("why", [NotAuthorized("no READ"), TopicMissing("no topic")])
def test_a_former_input_whose_offset_kafka_would_refuse_is_held(why: StreamError) -> None:
    kafka = FakeKafka(former=True, committed_at=42, metadata="id-1:3", failed={0: why})
    found = kafka.start()
    assert (found.held_by, found.is_former) == (why, True)
