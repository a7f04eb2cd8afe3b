"""The log of one simulated partition: batches, transactions, and what a reader sees of them.

A control record (the marker of a commit or an abort) takes an offset, as do aborted records. Invariant: `batches` are
in the order of their offsets, without gaps from `low` or before it to `end`.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Message

NO_PRODUCER: Final = -1
Headers = list[tuple[str, str | bytes | None]]


@dataclass(slots=True)
class Record:
    """A record as its producer sent it; `timestamp_ms` is never "now"."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers | None = None

    @property
    def size(self) -> int:
        """Return the bytes that the record takes, roughly as Kafka counts them."""
        headers = sum(len(name) + len(value or "") + 2 for name, value in self.headers or ())
        return len(self.key or b"") + len(self.value or b"") + headers + 12


@dataclass(slots=True, eq=False)
class Batch:
    """Records that were appended together; `count` offsets from `base` on.

    A `control` batch is a marker without records. `fetch_seconds` is how long its transfer takes.
    """

    base: int
    count: int
    records: list[Record]
    producer_id: int = NO_PRODUCER
    control: bool = False
    time_ms: int = 0
    """When a marker was written."""
    aborted: bool = False
    transaction: int | None = None
    """The number of the transaction that it is of, once that has ended."""
    fetch_seconds: float = 0.0
    epoch: int = 0
    """The leader epoch in which it was appended."""
    damaged: bool = False
    """Whether its checksum does not match."""
    messages: list[Message] | None = None
    """Each record as a consumer delivers it; made at the first fetch."""

    @property
    def end(self) -> int:
        """Return the offset after the last record."""
        return self.base + self.count


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a fetch: visible records, and the offset to fetch next.

    `epoch` is the leader epoch of the last batch before that offset, -1 without one. `damaged` is the first offset of
    the batch that is to be fetched, if that is damaged.
    """

    messages: list[Message]
    next_offset: int
    seconds: float
    epoch: int = -1
    damaged: int | None = None


@dataclass(slots=True)
class Changes:
    """How often the records and the offsets of a cluster have changed: who looks need not look again at the same."""

    count: int = 0


@dataclass(slots=True, eq=False)
class PartitionLog:
    """One partition. A topic that is created anew has new logs."""

    topic: str
    partition: int
    changes: Changes = field(default_factory=Changes)
    batches: list[Batch] = field(default_factory=list)
    low: int = 0
    end: int = 0
    leader_back_at: float = 0.0
    """The monotonic time up to which the partition has no leader."""
    gone: bool = False
    """Whether its topic was deleted."""
    epoch: int = 0
    """The leader epoch."""
    read_up_to: int = 0
    """The offset after the last record that a consumer has fetched."""
    _bases: list[int] = field(default_factory=list)
    _open: dict[int, list[Batch]] = field(default_factory=dict)

    @property
    def last_stable_offset(self) -> int:
        """Return the offset of the first record of an open transaction, or the end."""
        if not self._open:
            return self.end
        return min(batches[0].base for batches in self._open.values())

    def visible_end(self, *, committed: bool) -> int:
        """Return the end for a reader: the last stable offset if it reads `committed` records."""
        return self.last_stable_offset if committed else self.end

    def append(
        self,
        records: list[Record],
        producer_id: int = NO_PRODUCER,
        *,
        transactional: bool = False,
        fetch_seconds: float = 0.0,
    ) -> int:
        """Append one batch; return the offset of its first record."""
        batch = Batch(self.end, len(records), records, producer_id, fetch_seconds=fetch_seconds)
        if transactional:
            self._open.setdefault(producer_id, []).append(batch)
        return self._append(batch)

    def end_transaction(
        self, producer_id: int, time_ms: int, *, commit: bool, transaction: int | None = None
    ) -> None:
        """Append the marker of a transaction's end, also if it has no record here."""
        for batch in self._open.pop(producer_id, ()):
            batch.aborted, batch.transaction = not commit, transaction
        self._append(Batch(self.end, 1, [], producer_id, control=True, time_ms=time_ms))

    def delete_before(self, offset: int) -> None:
        """Delete records, as retention does: the low watermark is `offset` then."""
        self.low = max(self.low, min(offset, self.end))
        first = max(0, bisect_right(self._bases, self.low) - 1)
        while first < len(self.batches) and self.batches[first].end <= self.low:
            first += 1
        del self.batches[:first], self._bases[:first]

    def truncate(self, end: int) -> None:
        """Lose the records from an offset on, and get another leader, in a later epoch.

        As after a power loss or an unclean election. A transaction of which nothing is left is as if it had not begun.
        """
        while self.batches and self.batches[-1].end > end:
            batch = self.batches[-1]
            if batch.base < end:
                batch.count, batch.messages = end - batch.base, None
                del batch.records[batch.count :]
                break
            self.batches.pop()
            self._bases.pop()
            for producer_id in [each for each, open_ in self._open.items() if batch in open_]:
                self._open[producer_id].remove(batch)
                if not self._open[producer_id]:
                    del self._open[producer_id]
        self.end = min(self.end, end)
        self.low = min(self.low, self.end)
        self.change_leader()

    def change_leader(self) -> None:
        """Get another leader, in a later epoch."""
        self.changes.count += 1
        self.epoch += 1

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the end of the records of an epoch or one before, and that one's epoch.

        That is what a leader answers to OffsetForLeaderEpoch: -1 and -1 without a record.
        """
        if epoch == self.epoch:
            return self.end, epoch
        if not self.batches:
            return -1, -1
        if epoch < self.batches[0].epoch:
            return self.low, epoch
        last = [batch for batch in self.batches if batch.epoch <= epoch][-1]
        return last.end, last.epoch

    def fetch(
        self, offset: int, *, committed: bool, at_most: int, patient: bool = False
    ) -> Fetched:
        """Return visible records from `offset` on; about `at_most`.

        Up to one slow batch, unless the caller is `patient`.
        """
        messages: list[Message] = []
        end, seconds, epoch = self.visible_end(committed=committed), 0.0, -1
        for batch in self._from(offset):
            if offset >= end or len(messages) >= at_most or (seconds and not patient):
                break
            if batch.damaged:
                if not messages:
                    return Fetched([], offset, seconds, epoch, batch.base)
                break
            if not batch.control and not (committed and batch.aborted):
                found = self._messages(batch)
                messages += map(_own, found[offset - batch.base :])
            offset, epoch = batch.end, batch.epoch
            seconds += batch.fetch_seconds
        return Fetched(messages, offset, seconds, epoch)

    def offset_at(self, timestamp_ms: int, *, committed: bool) -> tuple[int, int] | None:
        """Return the first offset with that timestamp or a later one, and its timestamp. A marker has one too."""
        end = self.visible_end(committed=committed)
        for batch in self.batches:
            times = [batch.time_ms] if batch.control else [r.timestamp_ms for r in batch.records]
            for offset, time_ms in enumerate(times, batch.base):
                if self.low <= offset < end and time_ms >= timestamp_ms:
                    return offset, time_ms
        return None

    def newest(self, *, committed: bool) -> tuple[int, int] | None:
        """Return the first offset with the largest timestamp, and that timestamp."""
        end = self.visible_end(committed=committed)
        found = [
            (record.timestamp_ms, -offset)
            for batch in self.batches
            for offset, record in enumerate(batch.records, batch.base)
            if self.low <= offset < end
        ]
        if not found:
            return None
        timestamp_ms, negative = max(found)
        return -negative, timestamp_ms

    def _append(self, batch: Batch) -> int:
        self.changes.count += 1
        batch.epoch = self.epoch
        self.batches.append(batch)
        self._bases.append(batch.base)
        self.end = batch.end
        return batch.base

    def _from(self, offset: int) -> Iterator[Batch]:
        first = max(0, bisect_right(self._bases, offset) - 1)
        for number in range(first, len(self.batches)):
            yield self.batches[number]

    def _messages(self, batch: Batch) -> list[Message]:
        if batch.messages is None:
            topic, partition = self.topic, self.partition
            batch.messages = [
                Message(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    key=record.key,
                    value=record.value,
                    timestamp=(1, record.timestamp_ms),
                    headers=record.headers or None,
                    leader_epoch=batch.epoch,
                )
                for offset, record in enumerate(batch.records, batch.base)
            ]
        return batch.messages


def _own(message: Message) -> Message:
    """Return a message that its reader may change: a worker takes the origin off its headers."""
    headers = message.headers()
    if headers is None:
        return message
    return Message(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        timestamp=message.timestamp(),
        headers=list(headers),  # type: ignore[arg-type] # of a consumer they are a list
        leader_epoch=message.leader_epoch(),
    )
