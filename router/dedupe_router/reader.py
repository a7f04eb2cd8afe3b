"""Read the input partitions that the consumer group gives to this router.

The loop calls it. Kafka's rebalances reach it inside of `read`, and nowhere else. Invariants:
  - Records that wait here are of partitions that this router has owned since they were read.
  - A record that cannot be read holds its own partition: what stands before it is routed, and nothing after it.
  - A partition that Kafka does not let it read is given to the client again once its start is found.
  - The start of a partition is what the group has committed; an open transaction of its former owner is waited for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_crds.status.router import RouterInput
from dedupe_growth.routed_offsets import decode_routed, routed_up_to
from dedupe_ids.runs import runs_of
from dedupe_kafka.client import calling, kafka_error
from dedupe_kafka.errors import HoldingRecord, RecordCorrupt, StreamError
from dedupe_kafka.fetch_errors import before_corrupt_of_each
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_kafka.headers import before_unreadable
from dedupe_kafka.offsets import LastRead, Place
from dedupe_router.errors import named_error
from dedupe_router.lost_tail import OUT_OF_RANGE, LostTails
from dedupe_router.owned import (
    AGAIN_SECONDS,
    Owned,
    ask,
    assigned,
    begin,
    behind,
    hold_by,
    keep,
    new_starts,
    offsets_after,
    reasons,
    show_inputs,
    to_find,
    try_again,
    without_start,
)
from dedupe_router.receive import receive
from dedupe_router.start import Starts, place_of

# Of a topic that does not exist, or no longer: the watch names it.
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001 (public names)


@dataclass(slots=True)
class InputReader:
    """The consumer of one router."""

    consumer: Consumer
    starts: Starts
    clock: Clock
    on_rebalance: Callable[[], None]
    tails: LostTails = field(default_factory=LostTails)
    progress: FetchProgress = field(default_factory=FetchProgress)
    pending: list[Message] = field(default_factory=list)
    """Records that are read and not committed, in order."""
    rebalances: int = 0
    """The number of times that partitions were given or taken."""
    _owned: dict[Place, Owned] = field(default_factory=dict)
    _failure: StreamError | None = None
    _rebalanced: bool = False
    _idle: bool = False
    _paused: bool = False

    @calling("subscribing to the input")
    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics from now on, or as many partitions as the group gives."""
        if not topics:
            self.consumer.unsubscribe()
            return
        self.consumer.subscribe(
            list(topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )

    @property
    def places(self) -> list[Place]:
        """Return the partitions of this router."""
        return sorted(self._owned)

    def epoch_of(self, place: Place) -> int:
        """Return the epoch of what is committed of a partition of this router."""
        return self._owned[place].epoch

    def waits(self, place: Place) -> bool:
        """Return whether a partition of this router waits, see `hold`."""
        return self._owned[place].waits

    @property
    def held_by(self) -> list[StreamError]:
        """Return each reason that holds a partition of an input of the manifest."""
        return reasons(self._owned, former=False)

    def former_held_by(self) -> list[StreamError]:
        """Return why the offsets of former inputs can't be committed."""
        return reasons(self._owned, former=True)

    def read(self, most: int) -> None:
        """Serve the group; add up to `most` records to `pending`. Raises StreamError."""
        if not self._paused:
            try_again(self.consumer, self._owned, self.clock.monotonic())
        self._find_again()
        room, idle = most - len(self.pending), self._idle and not self.pending
        messages, seconds = receive(self.consumer, room, idle=idle)
        self.progress.waited(seconds)
        if self._failure is not None:
            raise self._failure
        failed = [message for message in messages if message.error() is not None]
        corrupt: dict[Place, RecordCorrupt] = {}
        if failed:
            messages, corrupt = before_corrupt_of_each(messages)
            failed = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        before = len(self.pending)
        self._take(messages)
        self._idle = len(self.pending) == before
        for message in failed:
            place = place_of(message)
            self._handle_error(message, place, self._owned.get(place))
        for place, holding in corrupt.items():
            self._hold_by(place, holding)

    def _take(self, messages: Sequence[Message]) -> None:
        """Keep the records of own partitions."""
        rebalanced, self._rebalanced = self._rebalanced, False
        for place, run in runs_of(messages):
            if (at := self._owned.get(place)) is None:
                continue  # of a partition that was given away
            if at.is_held:
                continue  # it came with the record that holds the partition, or after it
            records, unreadable = before_unreadable(run)
            keep(self.pending, at, records, rebalanced=rebalanced)
            if unreadable is not None:
                self._hold_by(place, unreadable)

    def _handle_error(self, message: Message, place: Place, at: Owned | None) -> None:
        error = message.error()
        assert error is not None  # noqa: S101 (the caller chose by it)
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public name)
            if at is not None and not at.is_held:
                at.held_by, at.asks = None, False
                # After the last record there may be transaction markers, which have offsets too.
                at.next_offset = max(at.next_offset, message.offset() or 0)
        elif error.code() in OUT_OF_RANGE and at is not None:
            self.lose(place, *self.tails.named(place, at, error))
        elif error.code() not in _ABSENT and not error.retriable():
            named = kafka_error(error, f"reading {place[0]}/{place[1]}")
            if not place[0]:
                raise named
            self.lose(place, named)

    def lose(self, place: Place, error: StreamError, parting: LastRead | None = None) -> None:
        """Forget the position of a partition: it is found again.

        From what is committed, or at `parting`. At once, unless that did not help before. Of a topic that is not owned
        there is nothing to do.
        """
        at = self._owned.get(place)
        if at is None or at.is_held:
            return  # also of a place that the client library has lost
        again = 0 if at.held_by is None or parting else AGAIN_SECONDS
        self.pending = [record for record in self.pending if place_of(record) != place]
        self._owned[place] = without_start(error, at, self.clock.monotonic() + again, parting)
        with calling(f"reading {place[0]}/{place[1]}"):
            self.consumer.incremental_unassign([TopicPartition(*place)])

    def _find_again(self) -> None:
        if lost := to_find(self._owned, self.clock.monotonic()):
            self.rebalances += 1  # so that the loop asks again whether it may be routed
            self._begin(lost)

    def new_starts(self, epoch: int) -> list[TopicPartition]:
        """Return the starts of the partitions that have no committed offset."""
        return new_starts(self._owned, epoch)

    def offsets_after(self, records: Sequence[Message], epoch: int) -> list[TopicPartition]:
        """Return the offsets to commit with the first `records` of `pending`."""
        return offsets_after(self._owned, records, self.pending, epoch)

    def mark_committed(self, records: int, offsets: Iterable[TopicPartition]) -> None:
        """Record that the first `records` of `pending`, and these offsets, are committed."""
        del self.pending[:records]
        for each in offsets:
            if (at := self._owned.get((each.topic, each.partition))) is not None:
                at.committed, at.committed_read = each.offset, routed_up_to(each)
                at.epoch = decode_routed(each.metadata).epoch

    @calling("asking for the membership")
    def membership(self) -> bytes | None:
        """Return the group's metadata for a commit; None if this is no member now.

        Kafka takes a commit without a member id from anybody, so such metadata must never be used.
        """
        before = self.consumer.memberid()
        metadata: bytes = self.consumer.consumer_group_metadata()
        return metadata if before and before == self.consumer.memberid() else None

    @calling("committing offsets of the input", named_error)
    def commit(self, offsets: list[TopicPartition]) -> None:
        """Commit without a transaction. Raises StreamError."""
        for each in self.consumer.commit(offsets=offsets, asynchronous=False) or ():
            if each.error is not None:
                raise KafkaException(each.error)

    def _hold_by(self, place: Place, error: HoldingRecord) -> None:
        if (at := self._owned.get(place)) is not None:
            hold_by(self.consumer, place, at, error, self.clock.monotonic())

    @calling("pausing the input")
    def hold(self, place: Place) -> list[Message]:
        """Let a partition wait: return its records, and read none until `release`."""
        held = [record for record in self.pending if place_of(record) == place]
        self.pending = [record for record in self.pending if place_of(record) != place]
        if (at := self._owned.get(place)) is not None:
            at.waits = True
            self.consumer.pause([TopicPartition(*place)])
        return held

    @calling("resuming the input")
    def release(self, place: Place, held: Sequence[Message]) -> None:
        """End the wait of a partition; its records come first, if it is still owned."""
        at = self._owned.get(place)
        if at is None or not at.waits:
            return
        at.waits = False
        self.pending = [*held, *self.pending]
        if at.is_read and not self._paused:
            self.consumer.resume([TopicPartition(*place)])

    @calling("pausing the input")
    def pause(self, *, paused: bool) -> None:
        """Stop reading all partitions, or start again."""
        if paused == self._paused:
            return
        self._paused = paused
        own = [TopicPartition(*place) for place, at in self._owned.items() if at.is_read]
        (self.consumer.pause if paused else self.consumer.resume)(own)

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._rebalanced = True
        self.rebalances += 1
        self.on_rebalance()
        try:
            self._begin(partitions)
        except StreamError as error:  # not through the library: it is raised by `read`
            self._failure = error

    @calling("taking partitions of the input")
    def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        found = self.starts.of(partitions) if partitions else []
        read = begin(self._owned, found, self.clock.monotonic())
        for each in read:
            self.progress.begin_again((each.topic, each.partition))
        self.consumer.incremental_assign(read)
        # A partition that comes back may be paused as it was when it was given away.
        (self.consumer.pause if self._paused else self.consumer.resume)(read)
        for place, why in ask(self._owned, read, self.consumer):
            self.lose(place, why)

    @calling("returning partitions of the input")
    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._rebalanced = True
        self.rebalances += 1
        self.on_rebalance()
        # Also of none: without a call the library unassigns all of them itself, which fails for what it does not read.
        consumer.incremental_unassign(assigned(self._owned, partitions))
        self._forget(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        for place in gone:
            self._owned.pop(place, None)
        self.pending = [record for record in self.pending if place_of(record) not in gone]

    def behind(self) -> dict[Place, int]:
        """Return the next offset of each partition that is read, and not at its end."""
        return {} if self._paused or self.pending else behind(self._owned, self.consumer)

    def positions(self) -> dict[Place, int]:
        """Return the next offset of each partition that is read now."""
        owned = {} if self._paused else self._owned
        return {place: at.next_offset for place, at in owned.items() if at.is_read}

    def inputs(self) -> list[RouterInput]:
        """Return the partitions of each topic, with their lag."""
        return show_inputs(self._owned, self.consumer)

    @calling("leaving the group")
    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()
