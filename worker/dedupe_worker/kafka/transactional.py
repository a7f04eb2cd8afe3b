"""Produce with transactions (exactly-once).

Records and input offset become visible together, or not at all. Kafka ends a transaction that is older than its
time-out, and refuses its producer from then on as if a newer one had fenced it. Invariant: all calls of a transaction
share one bound on their time, below that time-out; see take_over.py for the rest.
"""

from threading import Event
from typing import Final

from confluent_kafka import KafkaException, Producer

from dedupe_crds.clock import Clock, Stopwatch
from dedupe_kafka.client_config import TRANSACTION_SECONDS
from dedupe_kafka.errors import BrokerUnavailable, Stopped, TransactionExpired
from dedupe_kafka.offset_metadata import input_offset, with_reached
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.kafka.source import Source
from dedupe_worker.kafka.take_over import TakeOver

# For all calls of a transaction together: with the last slice and the abort less than TRANSACTION_SECONDS, so that
# this worker gives a transaction up before Kafka does.
_CALLS_SECONDS: Final = 45.0
_COMMIT_SLICE_SECONDS: Final = 1.0
_ABORT_SECONDS: Final = 5.0
_INIT_SECONDS: Final = 30.0
_INIT_SLICE_SECONDS: Final = 3.0


class TransactionalOutput(PartitionOutput):
    """Records and input offsets become visible together, or not at all."""

    def __init__(
        self, producer: Producer, topic: str, partition: int, clock: Clock, take_over: TakeOver
    ) -> None:
        super().__init__(producer, topic, partition, clock)
        self._take_over = take_over
        self._recorded = False
        self._age = Stopwatch(clock)

    def fence(self, stop: Event) -> None:
        """Take over the partition: fence an older worker and abort its open transaction.

        Returns only when that is done, so that no record stays behind the last stable offset. Raises Fenced,
        NotAuthorized or BrokerUnavailable, and Stopped if `stop` is set before.
        """
        deadline = self._clock.deadline(_INIT_SECONDS, stop)
        while True:
            try:
                # In slices, which librdkafka resumes, so that a stop does not wait for the whole time.
                with self._calling("taking over the partition"):
                    self._producer.init_transactions(_INIT_SLICE_SECONDS)
            except BrokerUnavailable as error:
                if deadline.pause(0):
                    continue
                if deadline.expired:
                    raise
                raise Stopped(str(error)) from error
            else:
                self._take_over.is_open = False
                return

    def take_over(self, committed: Committed, source: Source) -> None:
        """Record the take-over with the committed input offset, which stays as it is.

        An older worker finds out by it that there is a newer one. Raises StreamError.
        """
        self._take_over.begin(committed)
        self._record(committed.offset, source, committed.metadata or "")

    def record_start(self, next_offset: int, source: Source, metadata: str) -> None:
        """Commit the input offset of a start; record the take-over, if that was not done."""
        if not self._recorded:
            self._take_over.begin(None)
        self._record(next_offset, source, metadata)

    def begin(self) -> None:
        """Begin a transaction."""
        super().begin()
        self._age = Stopwatch(self._clock)
        with self._calling("beginning a transaction"):
            self._producer.begin_transaction()
        self._take_over.is_open = True

    @property
    def expired(self) -> bool:
        """Return whether the last transaction is old enough for Kafka to have ended it."""
        return self._age.seconds >= TRANSACTION_SECONDS

    def commit(self, next_offset: int, source: Source) -> None:
        """Commit the records and the input offset together; wait for the acknowledgement.

        Raises TransactionExpired, without a try, for a transaction that Kafka may end meanwhile.
        """
        metadata = with_reached(self._metadata_of(None), self._known_up_to)
        self._commit_offset(next_offset, source, metadata)
        self._find_unread(markers=1)

    def abort(self) -> None:
        """Abort the open transaction; Kafka does so itself after a minute."""
        with self._calling("aborting the transaction"):
            self._producer.abort_transaction(_ABORT_SECONDS)
        self._take_over.is_open = False

    def _record(self, next_offset: int, source: Source, metadata: str) -> None:
        """Commit the token of this take-over, with no record."""
        self.begin()
        self._commit_offset(next_offset, source, metadata)
        self._recorded = True

    def _commit_offset(self, next_offset: int, source: Source, metadata: str) -> None:
        if not self._seconds_left():
            raise TransactionExpired(
                f"the transaction of {self._topic}/{self._partition} is {self._age.seconds:.0f} s old, and Kafka ends "
                f"it after {TRANSACTION_SECONDS:.0f} s; starting again"
            )
        place, add_token = (source.topic, self._partition), self._take_over.add_token
        offsets = [
            input_offset(place, next_offset, metadata, source.last_read, add_token=add_token)
        ]
        membership = source.group_metadata()
        with self._calling("adding the input offset to the transaction"):
            self._producer.send_offsets_to_transaction(offsets, membership, self._seconds_left())
        self._commit()
        self._take_over.is_open = False
        self.committed = next_offset

    def _seconds_left(self) -> float:
        return max(0.0, _CALLS_SECONDS - self._age.seconds)

    def _commit(self) -> None:
        """Commit in slices, which librdkafka resumes.

        A record that is refused while the rest is being sent blocks that rest forever; the error surfaces only on a new
        call.
        """
        with self._calling("committing the transaction"):
            while True:
                try:
                    self._producer.commit_transaction(_COMMIT_SLICE_SECONDS)
                except KafkaException as error:
                    if not error.args[0].retriable() or not self._seconds_left():
                        raise
                else:
                    return
