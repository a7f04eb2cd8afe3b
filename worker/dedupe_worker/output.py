"""The output partition: records and input offsets that become visible together, or not at all."""

import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import BrokerUnavailable, StreamError

_CALL_SECONDS: Final = 60.0
_INIT_SECONDS: Final = 30.0
_INIT_SLICE_SECONDS: Final = 3.0
_COMMIT_SLICE_SECONDS: Final = 1.0
_ABORT_SECONDS: Final = 5.0

DeliveryReport = Callable[[KafkaError | None, Message], None]


class TransactionalOutput:
    """`begin`, any number of `produce`, then `commit` or `abort`.

    After any error but that of `abort` the transaction is lost and the output of no further use: what was committed
    and what was not is for the next session to find out from the topic itself.
    """

    def __init__(self, producer: Producer, topic: str, partition: int) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._position: int | None = None

    @property
    def position(self) -> int | None:
        """The output offset after the last record committed; None if there was none yet."""
        return self._position

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
        self._call("beginning a transaction", self._producer.begin_transaction)

    def produce(self, records: Sequence[Message]) -> None:
        """Send records, in order, as they are: key, value, headers and timestamp.

        librdkafka takes the timestamp 0 for "now", so the one millisecond that can't be passed on, the first of
        1970, becomes the second.
        """
        if not records:
            return
        produce, topic, partition = self._producer.produce, self._topic, self._partition
        for record in records[:-1]:
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
        self._produce_last(records[-1])
        self._poll(0)

    def commit(self, input_topic: str, next_offset: int, group_metadata: Any) -> None:  # noqa: ANN401
        """Make the records visible and the input offset committed, at once; waits for their acknowledgement.

        `group_metadata` is the opaque object of Consumer.consumer_group_metadata().
        """
        offsets = [TopicPartition(input_topic, self._partition, next_offset)]
        self._call(
            "adding the input offset to the transaction",
            self._producer.send_offsets_to_transaction,
            offsets,
            group_metadata,
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

    def _produce_last(self, record: Message) -> None:
        """The last record of a batch is the only one to report back: its offset is the output position."""
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value(),
                    record.key(),
                    self._partition,
                    self._report,
                    timestamp=record.timestamp()[1] or 1,
                    headers=record.headers() or [],
                )
            except BufferError:
                self._make_room()
            except KafkaException as error:
                raise self._named(error, "producing") from error
            else:
                return

    def _report(self, error: KafkaError | None, message: Message) -> None:
        # An error is not kept: the commit fails with its cause.
        if error is None:
            self._position = (message.offset() or 0) + 1

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
