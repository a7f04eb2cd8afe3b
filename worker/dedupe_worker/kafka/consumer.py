"""Read one partition of a topic, and commit its offsets.

The loop, the catch-up and the bootstrap use it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from threading import Event
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_kafka.client import calling, kafka_error
from dedupe_kafka.errors import RecordCorrupt, StreamError
from dedupe_kafka.fetch_errors import before_corrupt, parting_of, truncated
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_kafka.offset_metadata import input_offset
from dedupe_kafka.offsets import NOTHING_READ, LastRead
from dedupe_worker.kafka.committed import Committed, read_committed
from dedupe_worker.kafka.fetch_failures import LOOK_SECONDS, FetchFailures

_IDLE_POLL_SECONDS: Final = 0.5
# Of `read_output`, where latency does not matter.
_OUTPUT_BATCH_RECORDS: Final = 10_000
_OUTPUT_WAIT_SECONDS: Final = 0.2


class OffsetOutOfRange(StreamError):
    """The next offset is not in the partition; the next session seeks again."""

    retriable = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in order.

    `next_offset` is after the last record, and after the transaction markers and aborted records that follow it, as
    far as they are known. `behind` is the number of offsets after it, as of the last fetch.
    """

    records: Sequence[Message]
    next_offset: int
    behind: int


class PartitionReader:
    """Read committed records of one partition from an offset on.

    `make_impatient` makes a consumer of the group for `committed_now`, which without it waits as `committed` does.
    Raises OffsetOutOfRange, InputTruncated, RecordCorrupt, or the named error of `kafka_error`.
    """

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        partition: int,
        clock: Clock,
        fetched: FetchProgress,
        *,
        make_impatient: Callable[[], Any] | None = None,
    ) -> None:
        self._consumer = consumer
        self._make_impatient = make_impatient
        self._clock = clock
        self._fetched = fetched
        self.topic, self.partition = self._place = topic, partition
        self._next_offset = 0
        self.last_read = NOTHING_READ
        """The last record before the next offset, as far as it is known; commits have it."""
        self._proves = False
        self._idle = False
        self._seeks = 0
        self._corrupt: RecordCorrupt | None = None
        self._failures = FetchFailures(lambda: self.end_offset() is not None, clock.monotonic)
        self.check_topic: Callable[[], None] = lambda: None
        """Called with the first records after a fetch may have failed; may raise StreamError."""

    @property
    def next_offset(self) -> int:
        """Return the next offset to read, as of the last `read` or `seek`."""
        return self._next_offset

    def seek(self, offset: int, last_read: LastRead | None = None) -> None:
        """Read from `offset` on.

        With `last_read`, the last record before it, nothing is read of a partition that has lost that record: `read`
        raises InputTruncated.
        """
        self._proves, self.last_read = last_read is not None, last_read or NOTHING_READ
        with self._reading():
            self._consumer.assign([TopicPartition(self.topic, self.partition, offset)])
            if self.last_read.is_known:  # of `assign` the library does not always ask the leader
                epoch = self.last_read.epoch
                self._consumer.seek(
                    TopicPartition(self.topic, self.partition, offset, leader_epoch=epoch)
                )
        self._next_offset = offset
        self._seeks += 1
        self._idle = False
        self._fetched.begin_again(self._place)
        self._corrupt = None

    def committed(self) -> Committed | None:
        """Return the offset that the group has committed; None if there is none."""
        return self.committed_of([self.partition]).get(self.partition)

    def committed_now(self) -> Committed | None:
        """Return the offset that the group has committed; wait for no open transaction."""
        if self._make_impatient is None:
            return self.committed()
        with closing(self._make_impatient()) as consumer:
            found = read_committed(consumer, self._clock, self.topic, [self.partition])
        return found.get(self.partition)

    def committed_of(self, partitions: Iterable[int]) -> dict[int, Committed]:
        """Return what the group has committed of partitions of the topic."""
        return read_committed(self._consumer, self._clock, self.topic, partitions)

    def end_offset(self) -> int | None:
        """Return the end of the partition as of the last fetch."""
        where = TopicPartition(self.topic, self.partition)
        with self._reading():
            watermarks = self._consumer.get_watermark_offsets(where, cached=True)
        return watermarks[1] if watermarks and watermarks[1] >= 0 else None

    def read(self, max_records: int, wait_seconds: float) -> Batch:
        """Return up to `max_records` records, as many as arrive within `wait_seconds`.

        While the partition is idle this waits longer for the first record, and still returns as soon as it arrives.
        RecordCorrupt is raised by the read after the one that returned what stands before the corrupt batch. Up to then
        nothing counts as behind, so those records are committed first.
        """
        if self._corrupt is not None:
            raise self._corrupt
        was_idle, fetched = self._idle, self._fetched.next_offset(self._place)
        messages = self._receive(max_records, wait_seconds)
        records = [m for m in messages if m.error() is None]
        if len(records) < len(messages):
            messages, self._corrupt = before_corrupt(messages)
            records = [m for m in messages if m.error() is None]
        if records:
            if self._failures.before_these():
                self.check_topic()
            self._next_offset = (records[-1].offset() or 0) + 1
            epoch = records[-1].leader_epoch()
            self.last_read = LastRead(self._next_offset, -1 if epoch is None else epoch)
        else:
            self._fetched.waited(_IDLE_POLL_SECONDS if was_idle else wait_seconds)
            if was_idle and not messages:
                self._skip_aborted(fetched)
        at_end = False
        if len(records) < len(messages):
            at_end = self._handle_errors([m for m in messages if m.error() is not None])
        self._idle = not records
        # After the last stable offset there may be other producers' open transactions.
        at_end = at_end or self._idle or self._corrupt is not None
        self._fetched.follow({self._place: self._next_offset})
        behind = 0 if at_end else max(0, (self.end_offset() or 0) - self._next_offset)
        return Batch(records, self._next_offset, behind)

    def check(self, end: int) -> None:
        """Compare with the partition's end as the cluster reports it, every few seconds.

        Raises BrokerUnavailable as FetchProgress does.
        """
        self._fetched.check(self._place, self._next_offset, end)

    def commit(self, next_offset: int, metadata: str) -> None:
        """Commit `next_offset` and its metadata for the group, without a transaction."""
        place = self.topic, self.partition
        where = input_offset(place, next_offset, metadata, self.last_read)
        action = f"committing offset {next_offset} of {self.topic}/{self.partition}"
        with calling(action):
            done = self._consumer.commit(offsets=[where], asynchronous=False)
        for each in done or ():
            if each.error is not None:
                raise kafka_error(each.error, action)

    def group_metadata(self) -> object:
        """Return the group metadata for the offset commit of a transaction."""
        with self._reading():
            return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Close the connection."""
        with self._reading():
            self._consumer.close()

    def _receive(self, max_records: int, wait_seconds: float) -> list[Message]:
        with self._reading():
            self._failures.look()
            if not self._idle:
                return self._failures.watched(self._consumer.consume, max_records, wait_seconds)
            first = self._consumer.poll(LOOK_SECONDS)
            if first is None:
                self._failures.look()
                first = self._consumer.poll(_IDLE_POLL_SECONDS - LOOK_SECONDS)
            if first is None:
                return []
            if first.error() is not None or max_records == 1:
                return [first]
            consume = self._consumer.consume
            return [first, *self._failures.watched(consume, max_records - 1, wait_seconds)]

    def _reading(self) -> AbstractContextManager[None]:
        return calling(f"reading {self.topic}/{self.partition}")

    def _skip_aborted(self, fetched: int) -> None:
        """Advance to `fetched`, the position of the client before the last read.

        Between are only aborted records: that read found the queue empty, so no record before `fetched` waits in it.
        Not after a second seek, because statistics may be of the time before it.
        """
        if self._seeks == 1:
            self._next_offset = max(self._next_offset, fetched)

    def _handle_errors(self, failed: list[Message]) -> bool:
        """Raise what is an error; return whether the partition's end was reached."""
        at_end = False
        for message in failed:
            error = message.error()
            assert error is not None  # noqa: S101 (for the type checker: the caller chose by it)
            match error.code():
                case KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public name)
                    at_end = True
                    # After the last record there may be transaction markers, which have offsets too.
                    self._next_offset = max(self._next_offset, message.offset() or 0)
                case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE:  # noqa: SLF001
                    self._check_tail(error)
                    raise OffsetOutOfRange(
                        f"offset {self._next_offset} of {self.topic}/{self.partition} does not exist: {error.str()}"
                    )
                case _ if not error.retriable():
                    raise kafka_error(error, f"reading {self.topic}/{self.partition}")
        return at_end

    def _check_tail(self, error: KafkaError) -> None:
        """Raise InputTruncated if the error says that records which were read are lost.

        Markers of transactions after them may be lost: then the next session reads on from the last record.
        """
        parting = parting_of(error)
        if parting is None or not self._proves or parting.end >= self.last_read.end:
            return
        place = self.topic, self.partition
        raise truncated(place, self._next_offset, self.last_read, parting)


class Reader(Protocol):
    """The part of `PartitionReader` that reading to an end uses."""

    def read(self, max_records: int, wait_seconds: float) -> Batch: ...  # noqa: D102
    def check(self, end: int) -> None: ...  # noqa: D102


def read_output(
    reader: Reader, *, start: int, end: int, stop: Event, largest: int = _OUTPUT_BATCH_RECORDS
) -> Iterator[Batch]:
    """Yield the output partition in [start, end), at most `largest` records at a time.

    `reader` is at `start`. Ends early when `stop` is set. The last batch ends at `end` or after it.
    """
    position = start
    while position < end and not stop.is_set():
        batch = reader.read(min(_OUTPUT_BATCH_RECORDS, largest), _OUTPUT_WAIT_SECONDS)
        reader.check(end)
        position = batch.next_offset
        yield batch
