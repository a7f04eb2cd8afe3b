"""Write the output without a Python object for each record."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Message, TopicPartition

from dedupe_native.errors import kafka_exceptions
from dedupe_native.records import NativeRecords
from dedupe_worker.kafka.transactional import TransactionalOutput
from dedupe_worker.values import Times

_FLUSH_SECONDS: Final = 30.0


class NativeProducer:
    """The methods of a Producer that `TransactionalOutput` uses, over the extension.

    `make_writer` takes over the transactional id within a number of seconds. A call that fails or takes too long is not
    resumed: the transaction is lost, and so is this producer.
    """

    def __init__(self, make_writer: Callable[[float], Any]) -> None:
        self._make_writer = make_writer
        self._writer: Any = None  # dedupe_native.Writer
        self.written: tuple[int, int] | None = None
        """The offsets of the first record of the last transaction and after its last; None without records."""

    def init_transactions(self, seconds: float) -> None:
        """Take over the transactional id."""
        with kafka_exceptions():
            self._writer = self._make_writer(seconds)

    def begin_transaction(self) -> None:
        """Begin a transaction, which takes no request."""

    def produce(self, records: NativeRecords, seconds: float) -> None:
        """Send records."""
        kept = None if records.kept is None else records.kept.tobytes()
        with kafka_exceptions():
            self._writer.produce(records.batch, kept, seconds)

    def flush(self, seconds: float = _FLUSH_SECONDS) -> int:
        """Wait until the broker has all records; return how many it has not."""
        with kafka_exceptions():
            self._writer.flush(seconds)
        return 0

    def send_offsets_to_transaction(
        self, offsets: Sequence[TopicPartition], _: object, seconds: float
    ) -> None:
        """Add the input offset to the transaction."""
        [where] = offsets
        # The client library commits the end of a C string too, and reads beyond metadata that have none.
        metadata = f"{where.metadata}\0"
        with kafka_exceptions():
            self._writer.send_offset(where.topic, where.offset, metadata, seconds)

    def commit_transaction(self, seconds: float) -> None:
        """Commit the transaction."""
        with kafka_exceptions():
            self.written = self._writer.commit(seconds)

    def abort_transaction(self, seconds: float) -> None:
        """Abort the transaction."""
        with kafka_exceptions():
            self._writer.abort(seconds)


class NativeOutput(TransactionalOutput):
    """Records and input offsets become visible together, or not at all."""

    _producer: Any

    def produce(self, records: Sequence[Message], _times: Times) -> None:
        """Send records, in order and unchanged, as `PartitionOutput.produce` does."""
        if records:
            self._produced += len(records)
            with self._calling("producing"):
                self._producer.produce(records, self._seconds_left())

    def _commit(self) -> None:
        """Commit in one call, within what is left of the transaction's time."""
        with self._calling("committing the transaction"):
            self._producer.commit_transaction(self._seconds_left())
        if self._producer.written:
            self._first, self._position = self._producer.written
