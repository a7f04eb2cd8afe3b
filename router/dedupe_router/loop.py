"""Read a batch, decide on partitions, write it: one transaction for each batch.

`Session` calls `turn` until it is stopped. Invariants:
  - No transaction is open while the group is served, so a rebalance never meets one.
  - A batch that is not committed stays with the reader, and goes with its partition if that is given away.
  - A partition's start is committed before its first record is routed, so no offsets means that nothing is routed.
  - A record that Kafka refuses, or that cannot be read, stops its input partition, and no other one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from confluent_kafka import Message, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_crds.formatting import listed
from dedupe_crds.status.router import RouterPhase
from dedupe_kafka.errors import RecordRefused, StreamError
from dedupe_kafka.offsets import Place
from dedupe_router.adoption import Adoption
from dedupe_router.errors import Rebalanced
from dedupe_router.held import HeldInputs
from dedupe_router.output import Batch, Output, bytes_of
from dedupe_router.reader import InputReader
from dedupe_router.stalls import StallWatch
from dedupe_router.start import place_of
from dedupe_router.state import RouterState
from dedupe_router.watch import StreamWatch

_NARROW_BY: Final = 10
_AGAIN_SECONDS: Final = 15.0
_REBALANCE_SECONDS: Final = 0.1
# Between two commits of offsets alone.
_OFFSETS_SECONDS: Final = 1.0
_STATUS_SECONDS: Final = 1.0

log = structlog.get_logger()


class RepartitionTopicFull(StreamError):
    """The repartition topic has reached its limit: the router pauses."""

    retriable = True


@dataclass(frozen=True, slots=True)
class _Held:
    """The records of a partition that waits behind one that Kafka refuses."""

    records: Sequence[Message]
    error: RecordRefused
    again_at: float


@dataclass(slots=True)
class Loop:
    """One router's way from the inputs to the repartition topic."""

    reader: InputReader
    output: Output
    adoption: Adoption
    watch: StreamWatch
    held_inputs: HeldInputs
    stalls: StallWatch
    state: RouterState
    clock: Clock
    most: int
    _subscribed: Sequence[str] = ()
    _limit: int = 0
    _held: dict[Place, _Held] = field(default_factory=dict)
    _early: dict[Place, list[Message]] = field(default_factory=dict)
    _sorted_by: tuple[int, int] = (0, 0)
    _offsets_due: float = 0.0
    _status_due: float = 0.0
    _again_at: float = 0.0

    def turn(self) -> None:
        """Route one batch. Raises StreamError."""
        self._follow()
        self.reader.read(self.most)
        self._sort_out()
        self._show()
        self._route(self.reader.pending[: self._limit or self.most])
        self.state.heartbeat()

    def _follow(self) -> None:
        """Follow what the watch and the log say: topics, a full topic, a new epoch."""
        self.watch.check_if_due()
        before = self.adoption.epoch
        self.adoption.follow()
        if self.adoption.epoch != before:
            self.output.refresh()
            self._offsets_due = 0.0  # a growth waits for partitions without records as well
        if self.watch.topics != self._subscribed:
            self.reader.subscribe(self.watch.topics)
            self._subscribed = self.watch.topics
        self.reader.pause(paused=bool(self.watch.full))
        now = self.clock.monotonic()
        for place, held in list(self._held.items()):
            if now >= held.again_at:
                del self._held[place]
                self.reader.release(place, held.records)
        self.state.phase = RouterPhase.PAUSED if self.watch.full else RouterPhase.RUNNING
        self._name_what_waits()

    def _name_what_waits(self) -> None:
        full = [RepartitionTopicFull(self.watch.full)] if self.watch.full else []
        refused = [held.error for held in self._held.values()]
        self.state.block([*full, *refused, *self.reader.held_by])

    def _sort_out(self) -> None:
        """Let the partitions wait that may not be routed by this epoch, until they may."""
        state = self.adoption.known, self.reader.rebalances
        if state == self._sorted_by:
            return
        self._sorted_by = state
        places, reasons = self.reader.places, []
        self._early = {place: held for place, held in self._early.items() if place in places}
        for place in places:
            why = self.adoption.refuses(place, self.reader.epoch_of(place))
            if why:
                reasons.append(f"{place[0]}/{place[1]} {why}")
            if why and not self.reader.waits(place):
                self._held.pop(place, None)  # of a time before this router had the partition again
                self._early[place] = self.reader.hold(place)
            elif not why and place in self._early:
                self.reader.release(place, self._early.pop(place))
        self.state.warn("InputWaitsForEpoch", listed(reasons))
        former = listed([str(each) for each in self.reader.former_held_by()])
        self.state.warn(
            "FormerInputHeld",
            f"{former}: spec.input has it no more, and it may not be routed by an old epoch: a growth waits for it"
            if former
            else "",
        )

    def _route(self, records: Sequence[Message]) -> None:
        now = self.clock.monotonic()
        if now < self._again_at:
            return
        if offsets := self.reader.new_starts(self.adoption.epoch):
            records = ()
        elif not records and now < self._offsets_due:
            return
        else:
            offsets = self.reader.offsets_after(records, self.adoption.epoch)
        membership = self.reader.membership()
        if not offsets or membership is None:
            self._offsets_due = now + _OFFSETS_SECONDS
            if membership is not None and not records:
                self.state.clear_failure()  # at rest no commit shows that the session is well
            return
        routed = self.adoption.route.of(records)
        try:
            self.output.send(Batch(records, routed.partitions, offsets), membership)
        except Rebalanced as error:
            self.state.tally.aborted_transactions += 1
            # A rebalance takes as long as its slowest member; meanwhile each attempt is refused.
            self._again_at = now + _REBALANCE_SECONDS
            log.info("batch is not committed", reason=error.reason, why=str(error))
        except RecordRefused as error:
            self.state.tally.aborted_transactions += 1
            self._narrow(records, error)
        else:
            self._count(records, offsets, routed.without)

    def _count(
        self, records: Sequence[Message], offsets: Sequence[TopicPartition], without: int
    ) -> None:
        self.reader.mark_committed(len(records), offsets)
        self._limit = min(self.most, self._limit * _NARROW_BY) if self._limit else 0
        self._offsets_due = self.clock.monotonic() + _OFFSETS_SECONDS
        tally = self.state.tally
        tally.transactions += 1
        tally.routed += len(records)
        tally.without_id += without
        tally.bytes += bytes_of(records)
        self.state.clear_failure()
        self.state.clear_client_error()

    def _narrow(self, records: Sequence[Message], error: RecordRefused) -> None:
        """Send fewer records at once, until the refused record is alone."""
        if len(records) > 1:
            self._limit = max(1, len(records) // _NARROW_BY)
            return
        self._limit = 0
        (record,) = records
        place = place_of(record)
        named = type(error)(f"record {place[0]}/{place[1]} at offset {record.offset()}: {error}")
        log.error("record is refused", reason=named.reason, error=str(named))
        again_at = self.clock.monotonic() + _AGAIN_SECONDS
        self._held[place] = _Held(self.reader.hold(place), named, again_at)
        self._name_what_waits()

    def _show(self) -> None:
        now = self.clock.monotonic()
        if now >= self._status_due:
            self.state.inputs = self.reader.inputs()
            self.held_inputs.check(self.reader.behind())
            self.stalls.check()
            self.state.epoch = self.adoption.epoch
            self.state.is_member = self.reader.membership() is not None
            self._status_due = now + _STATUS_SECONDS
