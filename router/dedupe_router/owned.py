"""The input partitions that a router owns: their offsets, and their lag.

`InputReader` keeps them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from dedupe_crds.status.router import RouterInput
from dedupe_growth.epochs import NO_EPOCH
from dedupe_growth.routed_offsets import encode_routed
from dedupe_ids.runs import runs_of
from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import HoldingRecord, StreamError
from dedupe_kafka.offsets import Place
from dedupe_router.start import Start

AGAIN_SECONDS: Final = 15.0
"""Between two attempts at a partition that is held."""

log = structlog.get_logger()


@dataclass(slots=True)
class Owned:
    """A partition of this router: its first offset, the next, the committed one.

    `epoch` is the one by which what is committed was routed. While it `is_held`, nothing of it is taken
    until `again_at`; `held_by` names the record that nothing passes, or why Kafka does not let it be read, also while
    that is tried again. Unless it `is_assigned`, its position is not known: then nothing of it is committed, and its
    start is found again. One that `is_former` is of an input that the manifest has no more: nothing of it is read, and
    its offset is committed again with each new epoch.
    """

    start: int
    next_offset: int
    committed: int
    topic_id: str
    epoch: int
    waits: bool = False
    held_by: StreamError | None = None
    is_held: bool = False
    again_at: float = 0.0
    is_assigned: bool = True
    is_former: bool = False

    @property
    def is_read(self) -> bool:
        """Return whether it is read now, or paused with all others."""
        return not (self.waits or self.is_held or self.is_former)


def without_start(error: StreamError, before: Owned | None, again_at: float) -> Owned:
    """Return a partition that can't be read now, and whose position is not known."""
    if before is None or before.held_by is None:
        log.error("partition is held", reason=error.reason, error=str(error))
    unknown = Owned(0, 0, -1, "", NO_EPOCH, is_assigned=False)
    unknown.held_by, unknown.is_held, unknown.again_at = error, True, again_at
    return unknown


def begin(owned: dict[Place, Owned], found: Iterable[Start], now: float) -> list[TopicPartition]:
    """Take partitions; return where to read those that can be read."""
    read = []
    for start in found:
        before, at = owned.get(start.place), start.offset
        if start.held_by is not None:
            unknown = without_start(start.held_by, before, now + AGAIN_SECONDS)
            unknown.is_former = start.is_former
            owned[start.place] = unknown
            continue
        new = Owned(at, at, start.committed, start.topic_id, start.epoch)
        new.held_by = before.held_by if before else None  # until something is read of it
        owned[start.place] = new
        if start.is_former:
            new.is_former, new.held_by = True, None
        else:
            read.append(TopicPartition(*start.place, at))
    return read


def assigned(
    owned: Mapping[Place, Owned], partitions: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Return those of the partitions that the client library reads."""
    known = ((each, owned.get((each.topic, each.partition))) for each in partitions)
    return [each for each, at in known if at and at.is_assigned and not at.is_former]


def reasons(owned: Mapping[Place, Owned], *, former: bool) -> list[StreamError]:
    """Return what holds partitions: those of former inputs, or all others."""
    return [at.held_by for at in owned.values() if at.held_by and at.is_former is former]


def keep(pending: list[Message], at: Owned, run: Sequence[Message], *, rebalanced: bool) -> None:
    """Add the records of a run to `pending`, but for those that are there."""
    if not run:
        return
    at.held_by = None
    # Nearly always; a step for each record would take longer.
    if (run[0].offset() or 0) >= at.next_offset and not rebalanced:
        pending += run
        at.next_offset = (run[-1].offset() or 0) + 1
        return
    for message in run:
        # What is not kept was read before the partition was given away and back.
        if (offset := message.offset() or 0) >= at.next_offset:
            pending.append(message)
            at.next_offset = offset + 1


def new_starts(owned: Mapping[Place, Owned], epoch: int) -> list[TopicPartition]:
    """Return the starts of the partitions that have no committed offset.

    They are committed before a record is routed. Else a router that is killed in its first transaction leaves
    records, though aborted ones, and no offset: as if the offsets were lost.
    """
    return [
        TopicPartition(*place, at.start, encode_routed(at.topic_id, epoch))
        for place, at in owned.items()
        if at.committed < 0 and at.is_assigned
    ]


def offsets_after(
    owned: Mapping[Place, Owned], records: Sequence[Message], pending: Sequence[Message], epoch: int
) -> list[TopicPartition]:
    """Return the offsets to commit with `records`, the first ones of `pending`.

    Each is that of the next record to route; with it go the topic's id, and the epoch by which this router routes.
    Partitions without a record of these have one if they are read further than is committed, after transaction
    markers or at their start, and if what is committed is of another epoch.
    """
    after: dict[Place, int] = {}
    left: set[Place] = set()
    if len(records) < len(pending):  # else all are read as far as their partitions are
        after = {place: (run[-1].offset() or 0) + 1 for place, run in runs_of(records)}
        left = {place for place, _ in runs_of(pending[len(records) :])}
    for place, at in owned.items():
        if place not in left and not at.waits and at.is_assigned:
            after[place] = at.next_offset
    return [
        TopicPartition(*place, offset, encode_routed(owned[place].topic_id, epoch))
        for place, offset in after.items()
        if (offset, epoch) != (owned[place].committed, owned[place].epoch)
    ]


def hold_by(consumer: Consumer, place: Place, at: Owned, error: HoldingRecord, now: float) -> None:
    """Take nothing more of a partition, of which all before this record is taken."""
    if at.held_by is None:
        log.error("partition is held", reason=error.reason, error=str(error))
    at.held_by, at.is_held, at.again_at = error, True, now + AGAIN_SECONDS
    consumer.pause([TopicPartition(*place)])


def try_again(consumer: Consumer, owned: Mapping[Place, Owned], now: float) -> None:
    """Read held partitions again: a replica may be repaired, or a record deleted."""
    for place, at in owned.items():
        if not (at.is_held and at.is_assigned) or now < at.again_at or at.waits:
            continue
        try:
            # The client library is behind the record, or has lost its place.
            consumer.seek(TopicPartition(*place, at.next_offset))
        except KafkaException as error:
            at.again_at = now + AGAIN_SECONDS
            log.warning("partition stays held", error=str(kafka_error(error, "seeking")))
            continue
        at.is_held = False
        consumer.resume([TopicPartition(*place)])


def to_find(owned: Mapping[Place, Owned], now: float) -> list[TopicPartition]:
    """Return the partitions whose start is due to be found again."""
    return [
        TopicPartition(*place)
        for place, at in owned.items()
        if not at.is_assigned and now >= at.again_at
    ]


def behind(owned: Mapping[Place, Owned], consumer: Consumer) -> dict[Place, int]:
    """Return the next offset of each partition that is read, and not at its end."""
    return {
        place: at.next_offset
        for place, at in owned.items()
        if at.is_read and (end_of(consumer, place) or 0) > at.next_offset
    }


def show_inputs(owned: Mapping[Place, Owned], consumer: Consumer) -> list[RouterInput]:
    """Return the partitions of each topic, with their lag if it is known yet."""
    lags: dict[str, int | None] = {}
    numbers: dict[str, list[int]] = {}
    for (topic, number), at in sorted(owned.items()):
        if at.is_former:
            continue
        numbers.setdefault(topic, []).append(number)
        end = end_of(consumer, (topic, number)) if at.is_assigned else None
        before, lag = lags.get(topic, 0), _lag(end, at)
        lags[topic] = None if before is None or lag is None else before + lag
    return [
        RouterInput(topic=topic, partitions=numbers[topic], lag_messages=lags[topic])
        for topic in numbers
    ]


def end_of(consumer: Consumer, place: Place) -> int | None:
    """Return the end of a partition as of the last fetch, None before it.

    It is after the records of open transactions.
    """
    watermarks = consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
    return watermarks[1] if watermarks and watermarks[1] >= 0 else None


def _lag(end: int | None, at: Owned) -> int | None:
    return None if end is None else max(0, end - max(at.committed, 0))
