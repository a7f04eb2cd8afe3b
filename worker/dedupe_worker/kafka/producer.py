"""Produce to the output partition, and to the same partition of the side topics.

The loop calls it. `WorkerConfig.transactional_id` names the partition: a newer producer with the same id fences an
older one. Invariant: records and input offset become visible together (transactional.py), or the offset after the
records (non_transactional.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

from dedupe_crds.clock import Clock
from dedupe_kafka.client import calling
from dedupe_kafka.errors import BrokerUnavailable, QueueTooSmall, StreamError
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.side_records import Routed, SideRecord
from dedupe_worker.kafka.source import Source
from dedupe_worker.values import Times

# For a queue without room, where no transaction bounds the time.
_CALL_SECONDS: Final = 60.0
_FLUSH_SECONDS: Final = 5.0

DeliveryReport = Callable[[KafkaError | None, Message], None]


class PartitionOutput(ABC):
    """Producer of one output partition.

    Call `begin`, any number of `produce`, `route` and `produce_side_records`, then `commit` or `abort`. After any error
    but that of `abort` the transaction is lost and this output unusable: the next session finds out from the topic
    which records are visible.
    """

    def __init__(self, producer: Producer, topic: str, partition: int, clock: Clock) -> None:
        self._clock = clock
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._position = 0
        self._metadata_of: Callable[[int | None], str] = str
        self._first: int | None = None
        self._produced = 0
        self._known_up_to = 0
        self._markers = 0
        self._unread_from: int | None = None
        self._own: list[OffsetRange] = []
        self.committed: int | None = None
        """The input offset that was committed last, None before the first commit."""

    @property
    def position(self) -> int:
        """Return the offset after the last acknowledged record, or that of `resume`."""
        return self._position

    @property
    def unread(self) -> OffsetRange | None:
        """Return the offsets among which other producers may have written.

        They are since `resume`, and end where this worker's own end: what it wrote after others is read again, because
        the newest record of an id is the original.
        """
        low = self._unread_from
        return None if low is None else OffsetRange(low, self._position)

    @property
    def own(self) -> Sequence[OffsetRange]:
        """Return parts of `unread`, ascending, in which every record is this worker's."""
        return self._own

    @property
    def complete_up_to(self) -> int:
        """Return the offset before which every record was sent from here, or read."""
        return self._position if self._unread_from is None else self._unread_from

    def mark_read(self) -> None:
        """Record that `unread` was read."""
        self._unread_from = None
        self._own.clear()

    @abstractmethod
    def fence(self, stop: Event) -> None:
        """Take over the partition, as far as the broker can. Raises StreamError."""

    @property
    def expired(self) -> bool:
        """Return whether the last transaction is old enough for Kafka to have ended it."""
        return False

    def take_over(self, committed: Committed, source: Source) -> None:  # noqa: B027 (nothing, where a broker knows no owner)
        """Record the take-over with the committed input offset. Raises StreamError."""

    def resume(self, position: int, metadata: Callable[[int | None], str]) -> None:
        """Resume at this output offset.

        `metadata` builds the metadata of an offset commit; without uncommitted output, from None.
        """
        self._position = self._known_up_to = position
        self._markers = 0
        self._metadata_of = metadata

    @abstractmethod
    def record_start(self, next_offset: int, source: Source, metadata: str) -> None:
        """Commit the input offset of a start with its metadata, and nothing else."""

    def begin(self) -> None:
        """Begin a transaction, or what is committed together without one."""
        self._first, self._produced = None, 0

    @abstractmethod
    def commit(self, next_offset: int, source: Source) -> None:
        """Commit records and input offset; wait for it. Raises StreamError."""

    @abstractmethod
    def abort(self) -> None:
        """Abort what was begun, as far as possible. Raises StreamError."""

    def produce(self, records: Sequence[Message], times: Times) -> None:
        """Send records, in order and unchanged: key, value, headers and timestamp.

        `times` are the timestamps, shape (n,): to ask each record again takes time. librdkafka takes 0 for "now", so
        the only millisecond that cannot be sent, the first of 1970, becomes the second.
        """
        if not records:
            return
        topic, partition = self._topic, self._partition
        start = 0
        if not self._produced and len(records) > 1:
            self._send_reported(records[0])
            start = 1
        self._produced += len(records)
        with self._calling("producing"):
            produce = self._producer.produce
            for record, time_ms in zip(records[start:-1], times[start:-1].tolist(), strict=True):
                while True:
                    try:
                        produce(
                            topic,
                            record.value(),
                            record.key(),
                            partition,
                            None,
                            None,
                            time_ms or 1,
                            record.headers(),
                        )
                        break
                    except BufferError:
                        self._make_room()
        self._send_reported(records[-1])
        self._poll(0)

    def route(self, routed: Sequence[Routed]) -> None:
        """Send records to side topics, unchanged but for the added headers."""
        own = self._partition
        with self._calling("producing"):
            produce = self._producer.produce
            for topic, record, added, partition in routed:
                headers = record.headers()
                while True:
                    try:
                        produce(
                            topic,
                            record.value(),
                            record.key(),
                            own if partition is None else partition,
                            None,
                            None,
                            record.timestamp()[1] or 1,
                            [*headers, *added] if headers else [*added],
                        )
                        break
                    except BufferError:
                        self._make_room()

    def produce_side_records(self, records: Sequence[SideRecord]) -> None:
        """Send the worker's own records about output records."""
        for record in records:
            self._enqueue(
                record.topic,
                record.value,
                record.key,
                self._partition,
                timestamp=record.timestamp_ms,
            )

    def flush(self) -> OffsetRange | None:
        """Wait until the broker has every record; return the output offsets.

        None if there are none, if other producers have written between them, or after some seconds: only the commit
        reports what blocks them, such as a record that the broker refuses.
        """
        seconds = min(_FLUSH_SECONDS, self._seconds_left())
        try:
            with self._calling("sending"):
                left = self._producer.flush(seconds)
        except StreamError:
            # Fenced. The library calls delivery reports with its error pending, which is a SystemError of Python. Every
            # call after this one raises the error again, the commit's included.
            return None
        if left or self._first is None:
            return None
        written = OffsetRange(self._first, self._position)
        return written if written.end - written.low == self._produced else None

    def _find_unread(self, markers: int) -> None:
        """Find out whether others wrote before or between the committed records.

        After them come as many transaction `markers`, which have offsets too. Others may write before a marker as well.
        """
        if self._first is None:
            return
        alone = self._position - self._first == self._produced
        adjoins = self._first == self._known_up_to + self._markers
        if not (adjoins and alone) and self._unread_from is None:
            self._unread_from = min(self._known_up_to, self._first)
        if alone and self._unread_from is not None:
            low = self._first
            if adjoins and self._own and self._own[-1].end == self._known_up_to:
                low = self._own.pop().low
            self._own.append(OffsetRange(low, self._position))
        self._known_up_to, self._markers = self._position, markers

    def _seconds_left(self) -> float:
        """Return the bound on the next call."""
        return _CALL_SECONDS

    def _send_reported(self, record: Message) -> None:
        self._enqueue(
            self._topic,
            record.value(),
            record.key(),
            self._partition,
            self._report,
            timestamp=record.timestamp()[1] or 1,
            headers=record.headers() or [],
        )

    def _enqueue(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 (Producer.produce's own)
        with self._calling("producing"):
            while True:
                try:
                    self._producer.produce(*arguments, **options)
                except BufferError:
                    self._make_room()
                else:
                    return

    def _report(self, error: KafkaError | None, message: Message) -> None:
        """Take the offset of a first record, or of the last of a batch.

        An error is ignored here: the commit fails with its cause.
        """
        if error is None:
            offset = message.offset() or 0
            self._position = offset + 1
            if self._first is None:
                self._first = offset

    def _make_room(self) -> None:
        """Wait until the queue to the broker has room again."""
        deadline = self._clock.deadline(self._seconds_left())
        before = len(self._producer)
        if not before:
            raise QueueTooSmall(self._topic)
        while len(self._producer) >= before:
            self._poll(0.05)
            if deadline.expired:
                raise BrokerUnavailable(
                    f"{self._topic}/{self._partition}: the broker took no record for {deadline.seconds:.0f} s"
                )

    def _poll(self, seconds: float) -> None:
        """Serve delivery reports.

        A fatal error, such as being fenced, is raised by the first call after it.
        """
        with self._calling("producing"):
            self._producer.poll(seconds)

    def _calling(self, action: str) -> AbstractContextManager[None]:
        return calling(f"{action} of {self._topic}/{self._partition}")
