"""Read the input without a Python object for each record."""

from contextlib import AbstractContextManager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from dedupe_crds.clock import Clock
from dedupe_kafka.client import calling, kafka_error
from dedupe_kafka.errors import StreamError
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_kafka.offsets import NOTHING_READ, LastRead
from dedupe_native._native import Reader
from dedupe_native.errors import kafka_exceptions
from dedupe_native.records import NativeRecords
from dedupe_worker.kafka.consumer import Batch, OffsetOutOfRange, PartitionReader

_IDLE_SECONDS: Final = 0.5


class NativeReader(PartitionReader):
    """A reader whose records are read by the extension.

    Its consumer is for the offsets of the group only. A fetch names the topic by its UUID, so one that fails because
    the topic was created again is not repeated: it ends the session.
    """

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        partition: int,
        clock: Clock,
        *,
        servers: str,
        queue_bytes: int,
    ) -> None:
        super().__init__(consumer, topic, partition, clock, FetchProgress())
        self._servers = servers
        self._queue_bytes = queue_bytes
        self._records: Any = None  # dedupe_native.Reader
        self._checked = False
        self._end: int | None = None

    def seek(self, offset: int, last_read: LastRead | None = None) -> None:  # noqa: ARG002 (the interface)
        """Read from `offset` on. It does not prove the last record, and commits none."""
        self.last_read = NOTHING_READ
        where = self._servers, self.topic, self.partition
        with self._reading(), kafka_exceptions():
            self._records = Reader(*where, offset, self._queue_bytes)
        self._next_offset = offset
        self._idle = self._checked = False

    def end_offset(self) -> int | None:
        """Return the end of the partition as of the last fetch."""
        return self._end

    def read(self, max_records: int, wait_seconds: float) -> Batch:
        """Return up to `max_records` records, as `PartitionReader.read` does."""
        first_seconds = _IDLE_SECONDS if self._idle else wait_seconds
        with self._reading(), kafka_exceptions():
            self._consumer.poll(0)  # serves its errors
            read = self._records.read(max_records, wait_seconds, first_seconds)
        self._idle = len(read) == 0
        if not (self._idle or self._checked):
            self.check_topic()  # it may have been created again before the seek
            self._checked = True
        self._next_offset = read.next_offset
        self._end = read.high_watermark if read.high_watermark >= 0 else None
        behind = 0 if self._idle else max(0, read.last_stable_offset - read.next_offset)
        return Batch(NativeRecords(read), read.next_offset, behind)

    def close(self) -> None:
        """Close the connections."""
        self._records = None
        super().close()

    def _reading(self) -> AbstractContextManager[None]:
        return calling(f"reading {self.topic}/{self.partition}", _named)


def _named(error: KafkaException, action: str) -> StreamError:
    named = kafka_error(error, action)
    if error.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE:
        return OffsetOutOfRange(str(named))
    return named
