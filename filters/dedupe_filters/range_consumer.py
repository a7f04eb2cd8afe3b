"""Consume offset ranges of a topic's partitions, and fetch little between them.

The readers, the planner and the backfill use it. Invariant: every committed record of the ranges is returned, in order
within its partition, or an error is raised.

A Kafka fetch returns whole batches of records, and the client requests the next ones before the last are consumed. So
the gap between two ranges is fetched as well, unless the client is limited: with `SPARSE` it requests one response at a
time with about one batch in it, and a partition seeks to its next range before the fetched records are returned. `BULK`
fetches ahead, for long ranges.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from dedupe_crds.deadline import Deadline
from dedupe_filters.range_progress import Progress
from dedupe_kafka.client import Properties, calling, made, reading_config
from dedupe_kafka.errors import BrokerUnavailable, InvalidConfig, RecordCorrupt, RecordsExpired
from dedupe_kafka.fetch_errors import before_corrupt, fetch_error
from dedupe_kafka.offsets import OffsetRange

# How often the client asks whether its queue has room for the next fetch. With 5, a range and the seek to the next one
# take 6 ms instead of 2; with 0, a full queue costs half a core, with 1 a fiftieth.
_QUEUE_BACKOFF_MS: Final = 1

BULK: Final[Mapping[str, int]] = {
    "fetch.message.max.bytes": 2 << 20,
    "fetch.queue.backoff.ms": _QUEUE_BACKOFF_MS,
    "queued.max.messages.kbytes": 4 << 10,
}
SPARSE: Final[Mapping[str, int]] = {
    "fetch.message.max.bytes": 64 << 10,
    "fetch.queue.backoff.ms": _QUEUE_BACKOFF_MS,
    "queued.min.messages": 1,
}

_OURS: Final[Mapping[str, str | bool]] = {
    "check.crcs": True,
    "group.id": "dedupestream-reader",  # librdkafka requires one; the group is not used
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_BATCH_RECORDS: Final = 2_000
_WAIT_SECONDS: Final = 0.5
_STALLED_SECONDS: Final = 60.0
_SEEK_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.01
_STATISTICS_MS: Final = 5_000


def consumer_config(
    bootstrap_servers: str, properties: Properties, fetching: Mapping[str, int]
) -> dict[str, Any]:
    """Return the configuration of a consumer without a group and without commits.

    It reads committed records only. Raises InvalidConfig for a property that the results depend on.
    """
    if refused := sorted(_OURS.keys() & properties.keys()):
        raise InvalidConfig(
            f"Kafka properties: {', '.join(refused)}: the reader sets them itself; leave them out"
        )
    return {
        "fetch.wait.max.ms": 50,  # the end of a partition is reported after a fetch that waited in vain
        **reading_config(bootstrap_servers, properties),
        **fetching,
        **_OURS,
    }


class RangeConsumer:
    """Consumes ranges of partitions of one topic. Not to be shared between threads.

    Raises InvalidConfig for a property that librdkafka does not know; when reading, RecordsExpired, RecordCorrupt after
    the records before the corrupt batch, or the StreamError for Kafka's error.
    """

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self._config = {
            "statistics.interval.ms": _STATISTICS_MS,
            **config,
            "stats_cb": partial(self._hear, config.get("stats_cb")),
        }
        self._topic = topic
        self._fetched = 0
        self._open: dict[int, Progress] = {}
        self._client: Consumer | None = None
        self._corrupt: RecordCorrupt | None = None

    def read(self, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[list[Message]]:
        """Yield the records of the ranges, in lists of one partition in order.

        The partitions take turns. The ranges of a partition must be in order, and end at or before its last stable
        offset.
        """
        self._corrupt = None
        self._open = {p: Progress(each) for p, each in ranges.items() if len(each) > 0}
        if not self._open:
            return
        places = [
            TopicPartition(self._topic, p, progress.next_offset)
            for p, progress in self._open.items()
        ]
        with self._reading():
            self._consumer.assign(places)
        try:
            yield from self._read()
        finally:
            self._open = {}
            if self._client is not None:
                with self._reading():
                    self._client.unassign()

    def _read(self) -> Iterator[list[Message]]:
        reached, since = (-1, -1), time.monotonic()
        while self._open:
            if messages := self._receive():
                yield from self._take(messages)
            if self._corrupt is not None and self._open:
                raise self._corrupt
            delivered = sum(progress.next_offset for progress in self._open.values())
            if (delivered, self._fetched) != reached:
                reached, since = (delivered, self._fetched), time.monotonic()
            elif time.monotonic() > since + _STALLED_SECONDS:
                raise BrokerUnavailable(
                    f"{self._where()}: no record for {_STALLED_SECONDS:.0f} s; "
                    "check that Kafka runs there and can be reached from here"
                )

    def _hear(self, other: Callable[[str], None] | None, statistics: str) -> None:
        """Take the client's statistics, which are JSON, and pass them on.

        The client drops aborted records without a word: through a long stretch only the statistics show progress.
        """
        if other is not None:
            other(statistics)
        topic = json.loads(statistics)["topics"].get(self._topic)
        if topic:
            self._fetched = sum(each["next_offset"] for each in topic["partitions"].values())

    def poll(self, seconds: float) -> bool:
        """Serve the client's callbacks, such as statistics; return False during a read."""
        if self._open or self._client is None:
            return False
        with self._reading():
            self._client.poll(seconds)
        return True

    def close(self) -> None:
        """Close the connection; a running read cannot continue."""
        if self._client is not None:
            with self._reading():
                self._client.close()
            self._client = None

    @property
    def _consumer(self) -> Consumer:
        """Return the consumer, created at the first use.

        A consumer that connects before it has a topic searches for the topic only a second later.
        """
        if self._client is None:
            self._client = made(Consumer, dict(self._config))
        return self._client

    def _receive(self) -> list[Message]:
        """Wait for a message, and take those that are queued after it.

        `consume` alone would wait for the full number.
        """
        with self._reading():
            first = self._consumer.poll(_WAIT_SECONDS)
            if first is None:
                return []
            more = self._wanted() - 1
            return [first, *self._consumer.consume(more, 0)] if more > 0 else [first]

    def _wanted(self) -> int:
        """Return how many records to take at once.

        Not more than are wanted: records beyond them stay in the queue, and delay the next fetch.
        """
        return min(_BATCH_RECORDS, sum(progress.missing for progress in self._open.values()))

    def _take(self, messages: list[Message]) -> list[list[Message]]:
        failed = [m for m in messages if m.error() is not None]
        if failed:
            messages, self._corrupt = before_corrupt(messages)
            failed = [m for m in messages if m.error() is not None]
            messages = [m for m in messages if m.error() is None]
        kept = []
        for partition, records in _by_partition(messages, alone=len(self._open) == 1):
            if (progress := self._open.get(partition)) is not None:
                kept.append(progress.take(records))
        self._check(
            failed
        )  # after the records: the end of a partition is reported after its last record
        self._move_on()
        return [records for records in kept if records]

    def _move_on(self) -> None:
        """Seek partitions whose range is complete to their next range."""
        for partition, progress in list(self._open.items()):
            if progress.is_done:
                del self._open[partition]
                if self._open:
                    with self._reading():
                        self._consumer.incremental_unassign(
                            [TopicPartition(self._topic, partition)]
                        )
            elif (offset := progress.jump()) is not None:
                self._seek(TopicPartition(self._topic, partition, offset))

    def _seek(self, where: TopicPartition) -> None:
        """Seek to an offset; librdkafka refuses it before the partition's first fetch."""
        deadline = Deadline(_SEEK_SECONDS)
        with self._reading():
            while True:
                try:
                    self._consumer.seek(where)
                except KafkaException as error:
                    busy = error.args[0].code() == KafkaError._STATE  # noqa: SLF001 (a public name)
                    if not busy or not deadline.pause(_RETRY_SECONDS):
                        raise
                else:
                    return

    def _reading(self) -> AbstractContextManager[None]:
        return calling(f"reading {self._where()}")

    def _check(self, failed: list[Message]) -> None:
        for message in failed:
            error = message.error()
            assert error is not None  # noqa: S101 (for the type checker: these messages have errors)
            match error.code():
                case KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public name)
                    if (progress := self._open.get(_partition(message))) is not None:
                        progress.reach(message.offset() or 0)
                case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE:  # noqa: SLF001
                    raise RecordsExpired(
                        f"records of {self._topic}/{message.partition()} were deleted before they were read "
                        f"({error.str()}); read from the first retained offset, or raise the topic's retention"
                    )
                case KafkaError.GROUP_AUTHORIZATION_FAILED:
                    pass  # the client asks for its group's coordinator, which nothing here needs
                case _ if not error.retriable():
                    raise fetch_error(message, error)

    def _where(self) -> str:
        places = ", ".join(
            f"{p} at offset {progress.next_offset}" for p, progress in self._open.items()
        )
        return f"{self._topic}, partition {places}"


def _by_partition(messages: list[Message], *, alone: bool) -> Iterable[tuple[int, list[Message]]]:
    if alone or not messages:
        return [(_partition(messages[0]), messages)] if messages else []
    together = groupby(sorted(messages, key=_partition), _partition)
    return ((partition, list(records)) for partition, records in together)


def _partition(message: Message) -> int:
    partition = message.partition()
    return -1 if partition is None else partition
