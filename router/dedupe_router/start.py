"""Find the offset from which a router reads a partition.

`InputReader` calls it when the group gives it partitions. Invariant: what is committed is the truth; a router that
can't know what was routed does not begin.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_growth.entries import RouterStart
from dedupe_growth.epochs import NO_EPOCH
from dedupe_growth.routed_offsets import decode_routed, routed_up_to
from dedupe_kafka.client import kafka_error
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import NotAuthorized, StreamError, TopicMissing
from dedupe_kafka.fetch_errors import InputTruncated
from dedupe_kafka.group_offsets import read_group_offsets
from dedupe_kafka.offsets import NOTHING_READ, LastRead, Place, TopicOffsets
from dedupe_router.errors import RouterOffsetsLost

# Longer than a router's transaction may last: an offset in an open one is waited for.
_COMMITTED_SECONDS: Final = 25.0
# A longer stretch of markers and aborted records is not read again to prove the last record before it.
_MOST_OFFSETS_AGAIN: Final = 10_000


class Known(Protocol):
    """The part of `Adoption` that this needs."""

    def begun(self, topic: str, partition: int) -> RouterStart | None: ...  # noqa: D102
    def is_former(self, topic: str) -> bool: ...  # noqa: D102


Warn = Callable[[str, str], None]
"""Takes a reason and its explanation."""


def place_of(record: Message) -> Place:
    """Return the topic and partition of a record."""
    return record.topic() or "", record.partition() or 0


@dataclass(frozen=True, slots=True)
class Start:
    """The offset to read from, the committed one or -1, and the topic's id.

    `epoch` is the one by which what is committed was routed, -1 if nothing is. `last_read` is the last record before
    the committed offset; `offset` is not after it, because markers that follow it may be lost, with records in their
    place. With `held_by` there is no start: this partition can't be read now. With `is_former` it is of an input that
    the manifest has no more: then `offset` is the committed one, if there is one, wherever the topic begins and ends
    now, and `topic_id` the one it is of.
    """

    place: Place
    offset: int
    committed: int
    topic_id: str
    epoch: int
    held_by: StreamError | None = None
    last_read: LastRead = NOTHING_READ
    low: int = 0

    def after_loss(self, parting: LastRead) -> "Start":
        """Return the start where the logs part, after a loss that is accepted.

        It is committed before a record is routed, as a first start is.
        """
        offset = max(self.low, parting.end)
        return replace(self, offset=offset, committed=-1, last_read=parting)

    is_former: bool = False


class Starts(Protocol):
    """Finds where to start with partitions."""

    def of(self, partitions: Sequence[TopicPartition]) -> list[Start]: ...  # noqa: D102


class StartFinder:
    """Finds starts from the group's offsets and the partitions as they are now."""

    def __init__(
        self, consumer: Consumer, cluster: Cluster, clock: Clock, warn: Warn, known: Known
    ) -> None:
        self._consumer = consumer
        self._cluster = cluster
        self._clock = clock
        self._warn = warn
        self._known = known

    def require_offsets(self, topics: Iterable[str], *, routed: bool) -> None:
        """Raise RouterOffsetsLost if records were routed, and no offset is committed.

        Then it is not known which records of the input are routed.
        """
        counts = self._cluster.partition_counts(list(topics))
        wanted = [TopicPartition(name, n) for name, count in counts.items() for n in range(count)]
        if not routed or not wanted:
            return
        found = self._committed(wanted)
        if any(each.offset >= 0 for each in found):
            return
        for each in found:
            if each.error is not None:  # then it is not known that there is none
                raise self._refused(each)
        raise RouterOffsetsLost(
            "the repartition topic has records, but the group of the routers has no committed offset of the inputs "
            "(Kafka deletes them when a group was empty for offsets.retention.minutes; or all inputs are others): "
            "set the group's offsets to where routing "
            "shall continue, with kafka-consumer-groups.sh --reset-offsets; --to-earliest routes everything again, "
            "and the workers drop what is in their window"
        )

    def of(self, partitions: Sequence[TopicPartition]) -> list[Start]:
        """Return the start of each partition, or what holds it.

        Raises StreamError if Kafka does not answer, which is of no partition alone.
        """
        committed = self._committed(partitions)
        numbers: dict[str, set[int]] = {}
        for each in partitions:
            numbers.setdefault(each.topic, set()).add(each.partition)
        offsets = {topic: self._cluster.offsets_of(topic, numbers[topic]) for topic in numbers}
        return [self._start_or_reason(each, offsets[each.topic]) for each in committed]

    def _start_or_reason(self, at: TopicPartition, offsets: TopicOffsets) -> Start:
        why = self._refused(at) if at.error is not None else offsets.failed.get(at.partition)
        is_former = self._known.is_former(at.topic)
        if is_former and at.offset >= 0 and not isinstance(why, NotAuthorized | TopicMissing):
            why = None  # nothing is read
        if why is None:
            try:
                if is_former:
                    return self._former(at, offsets)
                return self._start(at, offsets.id, offsets.lows, offsets.ends)
            except InputTruncated as error:
                why = error
        return Start((at.topic, at.partition), 0, -1, "", NO_EPOCH, why, is_former=is_former)

    def _former(self, at: TopicPartition, offsets: TopicOffsets) -> Start:
        """Return where routing continues once the input is back.

        Only then the offset is compared with what the topic has.
        """
        place = at.topic, at.partition
        if at.offset >= 0:
            routed_id, epoch, _ = decode_routed(at.metadata)
            found = Start(place, at.offset, at.offset, routed_id, epoch, is_former=True)
            return replace(found, last_read=routed_up_to(at))
        offset, topic_id = offsets.lows.get(at.partition, 0), offsets.id
        if (begun := self._known.begun(*place)) is not None:
            offset, topic_id = begun.offset, begun.topic_id
        return Start(place, offset, -1, topic_id, NO_EPOCH, is_former=True)

    def _refused(self, at: TopicPartition) -> StreamError:
        action = f"reading the committed offset of {at.topic}/{at.partition}"
        return kafka_error(KafkaException(at.error), action)

    def _committed(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        wanted = [TopicPartition(each.topic, each.partition) for each in partitions]
        return read_group_offsets(
            self._consumer,
            wanted,
            timeout_seconds=_COMMITTED_SECONDS,
            deadline=self._clock.deadline(_COMMITTED_SECONDS),
            partly=True,
        )

    def _start(
        self, at: TopicPartition, topic_id: str, lows: dict[int, int], ends: dict[int, int]
    ) -> Start:
        place = at.topic, at.partition
        low, end = lows.get(at.partition, 0), ends.get(at.partition, 0)
        where = f"{at.topic}/{at.partition}"
        offset, committed = at.offset, max(at.offset, -1)
        routed_id, epoch, read = "", NO_EPOCH, NOTHING_READ
        if committed >= 0:
            routed_id, epoch, _ = decode_routed(at.metadata)
            read = _near(offset, routed_up_to(at))
        else:
            if (begun := self._known.begun(*place)) is None:
                return Start(place, low, committed, topic_id, NO_EPOCH)
            offset, routed_id = begun.offset, begun.topic_id
        if routed_id and routed_id != topic_id:
            self._warn(
                "InputTopicReplaced",
                f"{at.topic} was deleted and created again; it is read from its beginning",
            )
            return Start(place, low, committed, topic_id, epoch)
        if offset < low:
            self._warn(
                "InputExpired",
                f"{where}: {low - offset} offsets were deleted before they were read; routing continues with what "
                "is left. Raise the topic's retention, or add routers",
            )
            return Start(place, low, committed, topic_id, epoch, last_read=read)
        if read.is_known:  # the leader is asked for the rest
            again = max(low, min(offset, read.end))
            return Start(place, again, committed, topic_id, epoch, last_read=read, low=low)
        if offset > end:
            raise InputTruncated(
                f"{where} ends at {end}, and was read up to {offset}: the brokers have lost records. Wait for "
                "them, or set the group's offset to where routing shall continue"
            )
        return Start(place, offset, committed, topic_id, epoch)


def _near(offset: int, read: LastRead) -> LastRead:
    return read if offset - read.end <= _MOST_OFFSETS_AGAIN else NOTHING_READ
