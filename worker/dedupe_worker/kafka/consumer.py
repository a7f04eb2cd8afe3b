"""The input partition as the loop reads it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Protocol

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import BrokerUnavailable, StreamError
from dedupe_worker.values import Times

_MILLISECONDS: Final = itemgetter(1)  # of (type, milliseconds)
_IDLE_POLL_SECONDS: Final = 0.5
_TIMEOUT_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 0.1
# How long nothing may come although there is something to read.
_STARVED_SECONDS: Final = 20.0
# What a broker that has just started answers for a moment.
_COORDINATOR_ON_ITS_WAY: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


class OffsetOutOfRange(StreamError):
    """The next offset is not (or no longer) in the partition; the reader is repositioned, see session.py."""

    retriable = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in order. `next_offset` is after the last record and after the transaction markers that follow it at
    the end of the partition; `behind` is how many offsets come after it, as of the last fetch."""

    records: list[Message]
    next_offset: int
    behind: int


@dataclass(frozen=True, slots=True)
class Committed:
    """An input offset, and the note that stands with it, if any."""

    offset: int
    note: str | None


def timestamps(records: Sequence[Message]) -> Times:
    """Of n records, Unix milliseconds: shape (n,); 0 or less where one has none."""
    return np.fromiter(map(_MILLISECONDS, map(Message.timestamp, records)), np.int64, len(records))


class PartitionReader:
    """Reads committed records of one partition from an offset on.

    Raises OffsetOutOfRange, or what `kafka_error` makes of Kafka's errors.
    """

    def __init__(self, consumer: Consumer, topic: str, partition: int) -> None:
        self._consumer = consumer
        self.topic = topic
        self._partition = partition
        self._next_offset = 0
        self._idle = False
        self._starved_seconds = 0.0

    def seek(self, offset: int) -> None:
        """Read from `offset` on."""
        self._consumer.assign([TopicPartition(self.topic, self._partition, offset)])
        self._next_offset = offset
        self._idle = False
        self._starved_seconds = 0.0

    def committed(self) -> Committed | None:
        """What the group has committed; None if nothing."""
        action = f"reading the committed offset of {self.topic}/{self._partition}"
        where = TopicPartition(self.topic, self._partition)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            try:
                found = self._consumer.committed([where], timeout=_TIMEOUT_SECONDS)[0]
            except KafkaException as error:
                if (
                    error.args[0].code() not in _COORDINATOR_ON_ITS_WAY
                    or time.monotonic() > deadline
                ):
                    raise kafka_error(error, action) from error
                self._consumer.poll(_RETRY_SECONDS)
                continue
            if found.error is not None:
                raise kafka_error(found.error, action)
            return Committed(found.offset, found.metadata) if found.offset >= 0 else None

    def end_offset(self) -> int | None:
        """The end of the partition as of the last fetch."""
        where = TopicPartition(self.topic, self._partition)
        watermarks = self._consumer.get_watermark_offsets(where, cached=True)
        return watermarks[1] if watermarks and watermarks[1] >= 0 else None

    def read(self, max_records: int, wait_seconds: float) -> Batch:
        """Up to `max_records` records, as many as come within `wait_seconds`.

        While the partition is idle this waits longer for the first one, and still returns at once when it comes.
        """
        try:
            messages = self._receive(max_records, wait_seconds)
        except KafkaException as error:
            raise kafka_error(error, f"reading {self.topic}/{self._partition}") from error
        records = [m for m in messages if m.error() is None]
        if records:
            self._next_offset = (records[-1].offset() or 0) + 1
            self._starved_seconds = 0.0
        else:  # not by the clock, which goes on while the process is stopped
            self._starved_seconds += _IDLE_POLL_SECONDS if self._idle else wait_seconds
        at_end = False
        if len(records) < len(messages):
            at_end = self._judge([m for m in messages if m.error() is not None])
        self._idle = not records
        # Behind what is the end to a reader of committed records there may be others' open transactions.
        at_end = at_end or self._idle
        behind = 0 if at_end else max(0, (self.end_offset() or 0) - self._next_offset)
        return Batch(records, self._next_offset, behind)

    def check(self, end: int) -> None:
        """Compare with the partition's end as the cluster tells it; to be called every few seconds.

        librdkafka may wait without a word after a partition had no leader for a moment (its issues 3396 and 4492). A
        new consumer goes on. Raises BrokerUnavailable when there was something to read for long, and nothing came.
        """
        if self._next_offset >= end:
            self._starved_seconds = 0.0
        elif self._starved_seconds >= _STARVED_SECONDS:
            raise BrokerUnavailable(
                f"nothing comes of {self.topic}/{self._partition} from offset {self._next_offset} on, which ends at "
                f"{end}; connecting anew"
            )

    def commit(self, next_offset: int, note: str) -> None:
        """Commit for the group that it has read up to `next_offset`, without a transaction; `note` stands with it."""
        where = TopicPartition(self.topic, self._partition, next_offset, note)
        try:
            done = self._consumer.commit(offsets=[where], asynchronous=False)
        except KafkaException as error:
            raise kafka_error(
                error, f"committing offset {next_offset} of {self.topic}/{self._partition}"
            ) from error
        for one in done or ():
            if one.error is not None:
                raise kafka_error(
                    one.error, f"committing offset {next_offset} of {one.topic}/{one.partition}"
                )

    def group_metadata(self) -> object:
        """What a transaction needs to commit this reader's offsets."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()

    def _receive(self, max_records: int, wait_seconds: float) -> list[Message]:
        if not self._idle:
            return self._consumer.consume(max_records, wait_seconds)
        first = self._consumer.poll(_IDLE_POLL_SECONDS)
        if first is None:
            return []
        if first.error() is not None or max_records == 1:
            return [first]
        return [first, *self._consumer.consume(max_records - 1, wait_seconds)]

    def _judge(self, failed: list[Message]) -> bool:
        """True if the end of the partition was among what is not a record."""
        at_end = False
        for message in failed:
            error = message.error()
            assert error is not None  # noqa: S101 (for the type checker: the caller chose by it)
            match error.code():
                case KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public name)
                    at_end = True
                    # Behind the last record there may be transaction markers, which take offsets too.
                    self._next_offset = max(self._next_offset, message.offset() or 0)
                case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE:  # noqa: SLF001
                    raise OffsetOutOfRange(
                        f"offset {self._next_offset} of {self.topic}/{self._partition} does not exist: {error.str()}"
                    )
                case _ if not error.retriable():
                    raise kafka_error(error, f"reading {self.topic}/{self._partition}")
        return at_end


class Reader(Protocol):
    """What reading to an end needs of a PartitionReader."""

    def read(self, max_records: int, wait_seconds: float) -> Batch: ...  # noqa: D102
    def check(self, end: int) -> None: ...  # noqa: D102


class Source(Reader, Protocol):
    """What the loop and its commits need of one."""

    @property
    def topic(self) -> str: ...  # noqa: D102
    def end_offset(self) -> int | None: ...  # noqa: D102
    def group_metadata(self) -> object: ...  # noqa: D102
    def commit(self, next_offset: int, note: str) -> None: ...  # noqa: D102
