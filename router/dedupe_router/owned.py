"""The input partitions that a router owns: their offsets, and their lag.

`InputReader` keeps them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import Consumer, Message, TopicPartition

from dedupe_crds.status.router import RouterInput
from dedupe_growth.epochs import NO_EPOCH
from dedupe_growth.routed_offsets import routed_offset
from dedupe_ids.runs import runs_of
from dedupe_kafka.client import calling
from dedupe_kafka.errors import HoldingRecord, StreamError
from dedupe_kafka.offsets import NOTHING_READ, LastRead, Place
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

    `last_read` is the last record before the next offset, and `committed_read` the one before the committed offset, or
    before the start. It `asks` for that record from its start until something is read. `parting` is where it continues
    after the accepted loss of `last_read`.
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
    last_read: LastRead = NOTHING_READ
    committed_read: LastRead = NOTHING_READ
    asks: bool = False
    parting: LastRead | None = None
    is_former: bool = False

    @property
    def is_read(self) -> bool:
        """Return whether it is read now, or paused with all others."""
        return not (self.waits or self.is_held or self.is_former)

    @property
    def position(self) -> int:
        """Return the offset to commit: markers that a start reads again stay committed."""
        again = self.last_read.is_known and self.last_read == self.committed_read
        return max(self.next_offset, self.committed) if again else self.next_offset

    def go_back(self, place: Place) -> TopicPartition:
        """Go back to the end of the last record; return that place with its epoch.

        Markers between it and the next offset may be lost, with records in their place.
        """
        if not self.last_read.is_known:
            return TopicPartition(*place, self.next_offset)
        self.next_offset = min(self.next_offset, max(self.start, self.last_read.end))
        return TopicPartition(*place, self.next_offset, leader_epoch=self.last_read.epoch)


def without_start(
    error: StreamError, before: Owned | None, again_at: float, parting: LastRead | None = None
) -> Owned:
    """Return a partition that can't be read now, and whose position is not known.

    `parting` is where it continues after an accepted loss.
    """
    if before is None or before.held_by is None or before.held_by.reason != error.reason:
        log.error("partition is held", reason=error.reason, error=str(error))
    unknown = Owned(0, 0, -1, "", NO_EPOCH, is_assigned=False)
    unknown.held_by, unknown.is_held, unknown.again_at = error, True, again_at
    if before is not None:
        unknown.parting, unknown.last_read = parting, before.last_read
    return unknown


def begin(owned: dict[Place, Owned], found: Iterable[Start], now: float) -> list[TopicPartition]:
    """Take partitions; return where to read those that can be read."""
    read = []
    for start in found:
        before = owned.get(start.place)
        if start.held_by is not None:
            unknown = without_start(start.held_by, before, now + AGAIN_SECONDS)
            unknown.is_former = start.is_former
            owned[start.place] = unknown
            continue
        if before and before.parting is not None and before.last_read == start.last_read:
            start = start.after_loss(before.parting)  # noqa: PLW2901 (the same start, moved)
        at = start.offset
        new = Owned(at, at, start.committed, start.topic_id, start.epoch)
        new.last_read = new.committed_read = start.last_read
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


def ask(
    owned: Mapping[Place, Owned], assigned: Iterable[TopicPartition], consumer: Consumer
) -> Iterator[tuple[Place, StreamError]]:
    """Let the leaders be asked for the last records; yield what can't be asked for.

    Of `assign` with an epoch the client library does not always ask.
    """
    for place in [(each.topic, each.partition) for each in assigned]:
        at = owned[place]
        if not at.last_read.is_known:
            continue
        try:
            with calling(f"asking for the last record of {place[0]}/{place[1]}"):
                consumer.seek(at.go_back(place))
            at.asks = True
        except StreamError as error:
            yield place, error


def keep(pending: list[Message], at: Owned, run: Sequence[Message], *, rebalanced: bool) -> None:
    """Add the records of a run to `pending`, but for those that are there."""
    if not run:
        return
    at.held_by, at.asks = None, False
    # Nearly always; a step for each record would take longer.
    if (run[0].offset() or 0) >= at.next_offset and not rebalanced:
        pending += run
        at.last_read = read_up_to(run[-1])
        at.next_offset = at.last_read.end
        return
    for message in run:
        # What is not kept was read before the partition was given away and back.
        if (message.offset() or 0) >= at.next_offset:
            pending.append(message)
            at.last_read = read_up_to(message)
            at.next_offset = at.last_read.end


def read_up_to(message: Message) -> LastRead:
    """Return where a record ends, and its leader epoch."""
    epoch = message.leader_epoch()
    return LastRead((message.offset() or 0) + 1, -1 if epoch is None else epoch)


def new_starts(owned: Mapping[Place, Owned], epoch: int) -> list[TopicPartition]:
    """Return the starts of the partitions that have no committed offset.

    After an accepted loss what is committed does not count. Starts are committed before a record is routed. Else a
    router that is killed in its first transaction leaves records, though aborted ones, and no offset: as if the offsets
    were lost.
    """
    return [
        routed_offset(place, at.start, at.topic_id, epoch, at.committed_read)
        for place, at in owned.items()
        if at.committed < 0 and at.is_assigned and not (at.waits and at.epoch != NO_EPOCH)
    ]


def offsets_after(
    owned: Mapping[Place, Owned], records: Sequence[Message], pending: Sequence[Message], epoch: int
) -> list[TopicPartition]:
    """Return the offsets to commit with `records`, the first ones of `pending`.

    Each is that of the next record to route; with it go the topic's id, the epoch by which this router routes, and the
    leader epoch of the last record before.
    Partitions without a record of these have one if they are read further than is committed, after transaction
    markers or at their start, and if what is committed is of another epoch.
    """
    after: dict[Place, tuple[int, LastRead]] = {}
    left: set[Place] = set()
    if len(records) < len(pending):  # else all are read as far as their partitions are
        ends = {place: read_up_to(run[-1]) for place, run in runs_of(records)}
        after = {place: (read.end, read) for place, read in ends.items()}
        left = {place for place, _ in runs_of(pending[len(records) :])}
    for place, at in owned.items():
        if place not in left and not at.waits and at.is_assigned:
            after[place] = at.position, at.last_read
    return [
        routed_offset(place, offset, owned[place].topic_id, epoch, read)
        for place, (offset, read) in after.items()
        if (offset, epoch) != (owned[place].committed, owned[place].epoch)
    ]


@calling("pausing a partition of the input")
def hold_by(consumer: Consumer, place: Place, at: Owned, error: HoldingRecord, now: float) -> None:
    """Take nothing more of a partition, of which all before this record is taken."""
    if at.held_by is None:
        log.error("partition is held", reason=error.reason, error=str(error))
    at.held_by, at.is_held, at.again_at = error, True, now + AGAIN_SECONDS
    consumer.pause([TopicPartition(*place)])


@calling("reading a partition of the input again")
def try_again(consumer: Consumer, owned: Mapping[Place, Owned], now: float) -> None:
    """Read held partitions again: a replica may be repaired, or a record deleted."""
    for place, at in owned.items():
        if not (at.is_held and at.is_assigned) or now < at.again_at or at.waits:
            continue
        try:
            # The client library is behind the record, or has lost its place.
            with calling("seeking"):
                consumer.seek(at.go_back(place))
        except StreamError as error:
            at.again_at = now + AGAIN_SECONDS
            log.warning("partition stays held", error=str(error))
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
    with calling(f"reading {place[0]}/{place[1]}"):
        watermarks = consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
    return watermarks[1] if watermarks and watermarks[1] >= 0 else None


def _lag(end: int | None, at: Owned) -> int | None:
    return None if end is None else max(0, end - max(at.committed, 0))
