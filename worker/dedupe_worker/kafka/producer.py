"""The output partition, and the same partition of the topics beside it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import BrokerUnavailable, StreamError
from dedupe_worker.dedup.judge import Routed
from dedupe_worker.kafka.consumer import Source

_CALL_SECONDS: Final = 60.0
_INIT_SECONDS: Final = 30.0
_INIT_SLICE_SECONDS: Final = 3.0
_COMMIT_SLICE_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 5.0
_ABORT_SECONDS: Final = 5.0

DeliveryReport = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, slots=True)
class Span:
    """The output offsets of a transaction's records: `first` up to before `end`, without gaps."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Note:
    """A record of the worker's own in a topic beside the output; the timestamp 0 is the time of sending."""

    topic: str
    key: bytes | None
    value: bytes
    timestamp_ms: int = 0


class PartitionOutput(ABC):
    """`begin`, any number of `produce`, `route` and `note`, then `commit` or `abort`.

    After any error but that of `abort` what was begun is lost and the output of no further use: what has come to be
    read is for the next session to find out from the topic itself.
    """

    def __init__(self, producer: Producer, topic: str, partition: int) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._position = 0
        self._note_of: Callable[[int], str] = str
        self._first: int | None = None
        self._produced = 0

    @property
    def position(self) -> int:
        """The output offset after the last record that the broker has, or to `resume` at."""
        return self._position

    @abstractmethod
    def fence(self, stop: Event) -> None:
        """Take over the partition, as far as the broker can do that. Raises StreamError."""

    def resume(self, position: int, note: Callable[[int], str]) -> None:
        """Go on at an output offset; `note` makes of one what stands with a committed input offset."""
        self._position = position
        self._note_of = note

    def mark(self, next_offset: int, source: Source) -> None:  # noqa: B027 (nothing, where a crash leaves nothing in doubt)
        """Put on record where this begins, if the input offset on record does not say."""

    def begin(self) -> None:
        """Begin what is committed together."""
        self._first, self._produced = None, 0

    @abstractmethod
    def commit(self, next_offset: int, source: Source) -> None:
        """Have the broker keep all of it, and the input offset; waits for its acknowledgement. Raises StreamError."""

    @abstractmethod
    def abort(self) -> None:
        """Give up what was begun, as far as that can be done. Raises StreamError."""

    def produce(self, records: Sequence[Message]) -> None:
        """Send records, in order, as they are: key, value, headers and timestamp.

        librdkafka takes the timestamp 0 for "now", so the one millisecond that can't be passed on, the first of
        1970, becomes the second.
        """
        if not records:
            return
        produce, topic, partition = self._producer.produce, self._topic, self._partition
        start = 0
        if not self._produced and len(records) > 1:
            self._send(topic, records[0], self._report)
            start = 1
        self._produced += len(records)
        for record in records[start:-1]:
            while True:
                try:
                    produce(
                        topic,
                        record.value(),
                        record.key(),
                        partition,
                        None,
                        None,
                        record.timestamp()[1] or 1,
                        record.headers(),
                    )
                    break
                except BufferError:
                    self._make_room()
                except KafkaException as error:
                    raise self._named(error, "producing") from error
        self._send(topic, records[-1], self._report)
        self._poll(0)

    def route(self, routed: Sequence[Routed]) -> None:
        """Send records to topics beside the output, as they are but for the headers that are added."""
        for one in routed:
            self._send(one.topic, one.record, None, one.headers)

    def note(self, notes: Sequence[Note]) -> None:
        """Send records of the worker's own."""
        for one in notes:
            self._enqueue(
                one.topic, one.value, one.key, self._partition, timestamp=one.timestamp_ms
            )

    def settle(self) -> Span | None:
        """Wait until the broker has every record; returns the offsets of those of the output.

        None if there are none, if others have written between them, or after some seconds: what holds them up, such
        as a record that is refused, only the commit will say.
        """
        if self._producer.flush(_SETTLE_SECONDS) or self._first is None:
            return None
        span = Span(self._first, self._position)
        return span if span.end - span.first == self._produced else None

    def _send(
        self,
        topic: str,
        record: Message,
        report: DeliveryReport | None,
        added: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        headers = record.headers() or []
        self._enqueue(
            topic,
            record.value(),
            record.key(),
            self._partition,
            report,
            timestamp=record.timestamp()[1] or 1,
            headers=[*headers, *added] if added else headers,
        )

    def _enqueue(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 (Producer.produce's own)
        while True:
            try:
                self._producer.produce(*arguments, **options)
            except BufferError:
                self._make_room()
            except KafkaException as error:
                raise self._named(error, "producing") from error
            else:
                return

    def _report(self, error: KafkaError | None, message: Message) -> None:
        """Of the first record and of the last of each batch. An error is not kept: the commit fails with its cause."""
        if error is None:
            offset = message.offset() or 0
            self._position = offset + 1
            if self._first is None:
                self._first = offset

    def _make_room(self) -> None:
        """Wait until the queue to the broker has room again."""
        deadline = time.monotonic() + _CALL_SECONDS
        before = len(self._producer)
        while len(self._producer) >= before:
            self._poll(0.05)
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"{self._topic}/{self._partition}: the broker took no record for {_CALL_SECONDS:.0f} s"
                )

    def _poll(self, seconds: float) -> None:
        """Hear what was delivered. A fatal error, such as being fenced, is raised by whatever call comes first."""
        self._call("producing", self._producer.poll, seconds)

    def _call(self, action: str, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except KafkaException as error:
            raise self._named(error, action) from error

    def _named(self, error: KafkaException, action: str) -> StreamError:
        return kafka_error(error, f"{action} of {self._topic}/{self._partition}")


class TransactionalOutput(PartitionOutput):
    """Records and input offsets become visible together, or not at all."""

    def fence(self, stop: Event) -> None:
        """Take over the partition: fences an older worker and aborts what it left open.

        Returns only when that is settled, so that the last stable offset hides nothing. Raises Fenced,
        NotAuthorized or BrokerUnavailable; the last also when `stop` is set before.
        """
        deadline = time.monotonic() + _INIT_SECONDS
        while True:
            try:
                # In slices, which librdkafka resumes, so that a stop need not wait for the whole time.
                self._call(
                    "taking over the partition",
                    self._producer.init_transactions,
                    _INIT_SLICE_SECONDS,
                )
            except BrokerUnavailable:
                if stop.is_set() or time.monotonic() > deadline:
                    raise
            else:
                return

    def begin(self) -> None:
        """Begin a transaction."""
        super().begin()
        self._call("beginning a transaction", self._producer.begin_transaction)

    def commit(self, next_offset: int, source: Source) -> None:
        """Make the records visible and the input offset committed, at once; waits for their acknowledgement."""
        offsets = [TopicPartition(source.topic, self._partition, next_offset)]
        self._call(
            "adding the input offset to the transaction",
            self._producer.send_offsets_to_transaction,
            offsets,
            source.group_metadata(),
            _CALL_SECONDS,
        )
        self._commit()

    def abort(self) -> None:
        """Give the open transaction up, if Kafka can be reached; it gives it up itself after a minute."""
        self._call("aborting the transaction", self._producer.abort_transaction, _ABORT_SECONDS)

    def _commit(self) -> None:
        """Commit in slices, which librdkafka resumes.

        A record refused while the rest is being sent holds that rest back for ever; only a new call is told of it.
        """
        deadline = time.monotonic() + _CALL_SECONDS
        while True:
            try:
                self._producer.commit_transaction(_COMMIT_SLICE_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise self._named(error, "committing the transaction") from error
            else:
                return
