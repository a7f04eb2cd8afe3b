"""The border between two epochs in the records of a worker behind routers.

The loop calls it for each batch. A stream grows by epochs, see docs/decisions/0034: a mark in the repartition topic
shows where the records of an epoch begin. Invariants:
  - A mark is the first of its transaction: all records before it are committed, and none after it.
  - With the offset after a mark this worker's output position at that border is committed, its cut. Workers of new
    partitions read this output up to there.
  - A record that is another partition's by the epoch that was passed is sent on to it. No router sends one that late;
    this is the net below the protocol. Once the growth is done, the committed offset of every input has the epoch, so
    there is nothing left for the net.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

from confluent_kafka import Message

from dedupe_growth.mark import Mark, find_marks, mark_of
from dedupe_ids.route import Route
from dedupe_kafka.offset_metadata import Cut
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.kafka.side_records import Routed

_LOOK_EVERY_BATCHES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Part(Batch):
    """A part of a batch: records, or a mark alone."""

    mark: Mark | None = None


class NoBorder:
    """Without routers there are no epochs."""

    cut: Cut | None = None
    unrecorded = False
    """If it is true, the cut must be committed before the first record."""

    def parts(self, batch: Batch) -> Iterator[Part]:
        """Yield the whole batch."""
        yield Part(batch.records, batch.next_offset, batch.behind)

    def strays(self, records: Sequence[Message]) -> tuple[Sequence[Message], list[Routed]]:
        """Return the records that are this worker's, and the others as what to send on."""
        return records, []

    def pass_mark(self, mark: Mark, position: int) -> None:
        """Begin an epoch; `position` is the output position of this worker."""


class Border(NoBorder):
    """The epoch that the worker of one partition has passed, and its cut.

    `route_of` makes the rule for a number of partitions, `topic` is the repartition topic, `done` returns the highest
    epoch whose growth is done.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        passed: Mark,
        cut: Cut | None,
        route_of: Callable[[int], Route],
        done: Callable[[], int],
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._route_of = route_of
        self._done = done
        self._route: Route | None = None
        self._begin(passed)
        self.cut = cut

    def parts(self, batch: Batch) -> Iterator[Part]:
        """Yield a batch in parts, so that each mark is alone."""
        marks = find_marks(batch.records)
        if not marks:
            yield Part(batch.records, batch.next_offset, batch.behind)
            return
        first = 0
        for row in marks:
            mark = batch.records[row]
            offset = mark.offset() or 0
            left = batch.behind + len(batch.records) - row
            if row > first:
                yield Part(batch.records[first:row], offset, left)
            yield Part([], offset + 1, left - 1, mark_of(mark))
            first = row + 1
        if first < len(batch.records):
            yield Part(batch.records[first:], batch.next_offset, batch.behind)

    def strays(self, records: Sequence[Message]) -> tuple[Sequence[Message], list[Routed]]:
        """Return the records that are this worker's, and the others as what to send on."""
        if self._route is None:
            return records, []
        if self._batches % _LOOK_EVERY_BATCHES == 0 and self._done() >= self._passed.epoch:
            self._route = None  # to route each record again takes 0.2 to 1.5 us
            return records, []
        self._batches += 1
        partitions = self._route.of(records).partitions
        own = [each == self._partition for each in partitions]
        if all(own):
            return records, []
        return list(compress(records, own)), list(self._sent_on(records, partitions))

    def pass_mark(self, mark: Mark, position: int) -> None:
        """Begin an epoch, unless it has begun; `position` is this worker's in the output."""
        if mark.epoch > self._passed.epoch:
            self._begin(mark)
            self.cut = Cut(mark.epoch, position)

    def learnt(self, epoch: int, position: int) -> None:
        """Record that this partition, which an epoch has added, has learnt its ids."""
        if epoch > 0 and (self.cut is None or self.cut.epoch < epoch):
            self.cut = Cut(epoch, position)
            self.unrecorded = True

    def _begin(self, mark: Mark) -> None:
        self._passed = mark
        self._batches = 0
        # As long as a stream has not grown, no record can be another worker's.
        self._route = self._route_of(mark.partitions) if mark.epoch else None

    def _sent_on(self, records: Sequence[Message], partitions: Sequence[int]) -> Iterator[Routed]:
        for record, partition in zip(records, partitions, strict=True):
            if partition != self._partition:
                yield Routed(self._topic, record, [], partition)
