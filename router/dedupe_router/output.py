"""Write records and input offsets to Kafka: together, or offsets after records.

The loop calls it. Invariant: offsets are committed with the membership under which their records were read, so a
router that was taken for dead commits nothing any more (KIP-447).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from threading import Event
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from dedupe_crds.clock import Clock
from dedupe_crds.deadline import Deadline
from dedupe_ids.origin import HEADER, encode_origins
from dedupe_kafka.client import calling, made
from dedupe_kafka.errors import (
    BrokerUnavailable,
    QueueTooSmall,
    RecordRefused,
    Stopped,
    StreamError,
)
from dedupe_router.errors import Rebalanced, TransactionLost, named_error

TRANSACTION_SECONDS: Final = 10.0
"""The age at which Kafka aborts a transaction: an open one holds back all readers."""

# For all calls of a transaction, so that this router gives it up before Kafka does.
_CALLS_SECONDS: Final = 7.0
_SLICE_SECONDS: Final = 1.0
_ABORT_SECONDS: Final = 5.0
_INIT_SECONDS: Final = 30.0
_INIT_SLICE_SECONDS: Final = 3.0
_ROOM_SECONDS: Final = 0.05
_SAMPLE: Final = 64

# After a batch of records that is refused, the next one of its partition is out of order.
_AFTER_REFUSED: Final = frozenset(
    {KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError._INCONSISTENT}  # noqa: SLF001 (a public name)
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Records with a partition for each, and the input offsets after them."""

    records: Sequence[Message]
    partitions: Sequence[int]
    offsets: Sequence[TopicPartition]


class Output(Protocol):
    """Destination of batches."""

    def fence(self, stop: Event) -> None:
        """Take over this router's number. Raises StreamError, and Stopped."""

    def refresh(self) -> None:
        """Learn of partitions that were added to the topic. Raises StreamError."""

    def send(self, batch: Batch, membership: bytes) -> None:
        """Write a batch, and commit its offsets.

        Raises Rebalanced or RecordRefused if nothing is committed and the same records can be sent again; after any
        other StreamError this output is unusable.
        """


class TransactionalOutput:
    """Records and offsets become visible together, or not at all."""

    def __init__(self, producer: Producer, topic: str, clock: Clock) -> None:
        self._producer = producer
        self._topic = topic
        self._clock = clock

    def fence(self, stop: Event) -> None:
        """Fence an older process of this number, and abort its open transaction."""
        deadline = self._clock.deadline(_INIT_SECONDS, stop)
        while True:
            try:
                # In slices, which librdkafka resumes, so that a stop does not wait for the whole time.
                with calling("taking over the number of this router", named_error):
                    self._producer.init_transactions(_INIT_SLICE_SECONDS)
            except BrokerUnavailable as error:
                if deadline.pause(0):
                    continue
                if deadline.expired:
                    raise
                raise Stopped(str(error)) from error
            else:
                return

    def refresh(self) -> None:
        """Learn of partitions that were added to the topic."""
        refresh_partitions(self._producer, self._topic)

    def send(self, batch: Batch, membership: bytes) -> None:
        """Write a batch in one transaction."""
        deadline = self._clock.deadline(_CALLS_SECONDS)
        with calling(f"routing to {self._topic}", self._failed):
            self._producer.begin_transaction()
            try:
                _produce_all(self._producer, self._topic, batch, lambda: deadline.expired)
            except BrokerUnavailable:
                self._abort()
                raise
            self._producer.send_offsets_to_transaction(
                list(batch.offsets), membership, deadline.remaining()
            )
            self._commit_until(deadline)

    def _failed(self, error: KafkaException, action: str) -> StreamError:
        """Return the named error; abort the transaction if the records can be sent again."""
        cause: KafkaError = error.args[0]
        named = named_error(error, action)
        if cause.txn_requires_abort():
            self._abort()
            return RecordRefused(str(named)) if cause.code() in _AFTER_REFUSED else named
        return TransactionLost(str(named)) if isinstance(named, Rebalanced) else named

    def _commit_until(self, deadline: Deadline) -> None:
        """Commit in slices, because a refused record surfaces only on a new call."""
        while True:
            try:
                self._producer.commit_transaction(_SLICE_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable() or deadline.expired:
                    raise
            else:
                return

    def _abort(self) -> None:
        """Abort the open transaction. Raises TransactionLost if that fails."""
        with calling("aborting a transaction", _lost):
            self._producer.abort_transaction(_ABORT_SECONDS)


class NonTransactionalOutput:
    """Offsets are committed after the records are acknowledged: at least once."""

    def __init__(
        self,
        config: dict[str, Any],
        topic: str,
        clock: Clock,
        *,
        commit: Callable[[list[TopicPartition]], None],
        make_producer: Callable[[dict[str, Any]], Any] = Producer,
    ) -> None:
        self._refused: KafkaError | None = None
        self._producer = made(make_producer, {**config, "on_delivery": self._on_delivery})
        self._topic = topic
        self._clock = clock
        self._commit = commit

    def fence(self, stop: Event) -> None:
        """Do nothing: without transactions a broker knows no owner of a number."""

    def refresh(self) -> None:
        """Learn of partitions that were added to the topic."""
        refresh_partitions(self._producer, self._topic)

    def send(self, batch: Batch, membership: bytes) -> None:  # noqa: ARG002 (the consumer commits as what it is)
        """Write a batch, wait until it is acknowledged, then commit its offsets."""
        self._refused = None
        deadline = self._clock.deadline(_CALLS_SECONDS)
        with calling(f"routing to {self._topic}", named_error):
            _produce_all(self._producer, self._topic, batch, lambda: deadline.expired)
            self._flush_until(deadline)
            self._commit(list(batch.offsets))

    def _flush_until(self, deadline: Deadline) -> None:
        while self._producer.flush(_SLICE_SECONDS) and self._refused is None:
            if deadline.expired:
                self._producer.purge()
                raise BrokerUnavailable(
                    f"records for {self._topic} are not acknowledged after {_CALLS_SECONDS:.0f} s"
                )
        if self._refused is not None:
            self._producer.purge()
            raise KafkaException(self._refused)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._refused is None:
            self._refused = error


def refresh_partitions(producer: Producer, topic: str) -> None:
    """Ask Kafka for the topic's partitions. Raises StreamError.

    librdkafka does so every 5 minutes, and until then refuses a record for a new partition.
    """
    with calling(f"asking for the partitions of {topic}", named_error):
        producer.list_topics(topic, _CALLS_SECONDS)


def _produce_all(producer: Producer, topic: str, batch: Batch, expired: Callable[[], bool]) -> None:
    """Produce each record unchanged, but for the origin header that is added.

    librdkafka takes the timestamp 0 for "now", so the first millisecond of 1970 becomes the second.
    """
    produce = producer.produce
    origins = zip(repeat(HEADER), encode_origins(batch.records), strict=False)
    for record, partition, own in zip(batch.records, batch.partitions, origins, strict=True):
        headers = record.headers()
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
                    [*headers, own] if headers else [own],
                )
                break
            except BufferError:
                if not len(producer):
                    raise QueueTooSmall(topic) from None
                producer.poll(_ROOM_SECONDS)
                if expired():
                    raise BrokerUnavailable(f"{topic}: the broker takes no records") from None


def _lost(error: KafkaException, action: str) -> StreamError:
    # Kafka ends it after its time-out.
    return TransactionLost(str(named_error(error, action)))


def bytes_of(records: Sequence[Message]) -> int:
    """Return the bytes of keys, values and headers.

    Those of headers follow from one record in 64: to read all once more takes time, and the sum is for an estimate.
    """
    keys = sum(len(key) for key in map(Message.key, records) if key)
    sample = records[::_SAMPLE]
    headers = 0
    for record in sample:
        for name, value in record.headers() or ():  # type: ignore[str-unpack] # they are pairs
            headers += len(name) + len(value or b"")
    scaled = headers * len(records) // len(sample) if sample else 0
    return sum(map(len, records)) + keys + scaled  # the length of a message is that of its value
