"""Fetches spans of a topic's partitions, and little else.

Kafka's fetch returns whole batches of records, and its client asks for the next before the last are used. So what
is between two spans is fetched as well unless the client is held back: `SPARSE` asks for one response at a time
and for no more than a batch or so in each, and a partition is sent on to its next span before what was fetched is
handed out. `BULK` fetches ahead, for spans that are long.
"""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from dedupe_filters.range_plan import Span
from dedupe_kafka.client import Properties, client_config, kafka_error, made
from dedupe_kafka.errors import BrokerUnavailable, InvalidConfig, StreamError

BULK: Final[Mapping[str, int]] = {
    "fetch.message.max.bytes": 2 << 20,
    "fetch.queue.backoff.ms": 5,
    "queued.max.messages.kbytes": 4 << 10,
}
SPARSE: Final[Mapping[str, int]] = {
    "fetch.message.max.bytes": 64 << 10,
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 1,
}

_OURS: Final[Mapping[str, str | bool]] = {
    "group.id": "dedupestream-reader",  # librdkafka wants one; nothing is asked of the group
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


class RecordsExpired(StreamError):
    """Records were deleted, by retention or by hand, before they were read."""


def consumer_config(
    bootstrap_servers: str, properties: Properties, fetching: Mapping[str, int]
) -> dict[str, Any]:
    """Return the configuration of a consumer of committed records that belongs to no group and commits nothing.

    Raises InvalidConfig for a property that results rest on.
    """
    if refused := sorted(_OURS.keys() & properties.keys()):
        raise InvalidConfig(
            f"Kafka properties: {', '.join(refused)}: the reader sets them itself; leave them out"
        )
    return {
        "fetch.wait.max.ms": 50,  # the end of a partition is told when a fetch has waited in vain
        **client_config(bootstrap_servers, properties),
        **fetching,
        **_OURS,
    }


class SpanFetcher:
    """Reads what it is sent to, from partitions of one topic. Not to be shared between threads.

    Raises InvalidConfig for a property that is not librdkafka's; when reading, RecordsExpired or what `kafka_error`
    makes of Kafka's errors.
    """

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self._config = config
        self._topic = topic
        self._open: dict[int, Progress] = {}
        self._client: Consumer | None = None

    def read(self, spans: Mapping[int, Sequence[Span]]) -> Iterator[list[Message]]:
        """Return the records of spans, in lists, each of one partition and in order; partitions take turns.

        The spans of a partition must be in order, and end at or before its last stable offset.
        """
        self._open = {p: Progress(each) for p, each in spans.items() if len(each) > 0}
        if not self._open:
            return
        self._consumer.assign(
            [TopicPartition(self._topic, p, one.next_offset) for p, one in self._open.items()]
        )
        try:
            yield from self._read()
        finally:
            self._open = {}
            if self._client is not None:
                self._client.unassign()

    def _read(self) -> Iterator[list[Message]]:
        progress, since = -1, time.monotonic()
        while self._open:
            if messages := self._receive():
                yield from self._take(messages)
            if (now_at := sum(one.next_offset for one in self._open.values())) != progress:
                progress, since = now_at, time.monotonic()
            elif time.monotonic() > since + _STALLED_SECONDS:
                raise BrokerUnavailable(
                    f"{self._where()}: nothing came for {_STALLED_SECONDS:.0f} s; "
                    "check that Kafka runs there and can be reached from here"
                )

    def poll(self, seconds: float) -> bool:
        """Let the client call back, as with statistics; false, and nothing is done, while reading is under way."""
        if self._open or self._client is None:
            return False
        self._client.poll(seconds)
        return True

    def close(self) -> None:
        """Let go of the connection. What was being read can't go on."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @property
    def _consumer(self) -> Consumer:
        """Made when it is needed: one that has connected before it is given a topic looks for it a second later."""
        if self._client is None:
            self._client = made(Consumer, dict(self._config))
        return self._client

    def _receive(self) -> list[Message]:
        """Wait for something, and take what is there with it: `consume` alone would wait until there is enough."""
        first = self._consumer.poll(_WAIT_SECONDS)
        if first is None:
            return []
        more = self._wanted() - 1
        return [first, *self._consumer.consume(more, 0)] if more > 0 else [first]

    def _wanted(self) -> int:
        """How many records to take at once.

        Not more than are wanted: what was fetched beyond them stays in the queue, and holds the next fetch back.
        """
        return min(_BATCH_RECORDS, sum(one.missing for one in self._open.values()))

    def _take(self, messages: list[Message]) -> list[list[Message]]:
        failed = [m for m in messages if m.error() is not None]
        if failed:
            messages = [m for m in messages if m.error() is None]
        kept = []
        for partition, records in _by_partition(messages, alone=len(self._open) == 1):
            if (one := self._open.get(partition)) is not None:
                kept.append(one.take(records))
        self._judge(failed)  # after the records: that a partition ends there comes behind its last
        self._move_on()
        return [records for records in kept if records]

    def _move_on(self) -> None:
        """Send partitions that are through with a span to their next."""
        for partition, one in list(self._open.items()):
            if one.is_done:
                del self._open[partition]
                if self._open:
                    self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
            elif (offset := one.jump()) is not None:
                self._seek(TopicPartition(self._topic, partition, offset))

    def _seek(self, where: TopicPartition) -> None:
        """Go to an offset; a partition whose first fetch is not under way yet refuses for a moment."""
        deadline = time.monotonic() + _SEEK_SECONDS
        while True:
            try:
                self._consumer.seek(where)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:  # noqa: SLF001 (a public name)
                    raise kafka_error(error, f"reading {self._where()}") from error
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _judge(self, failed: list[Message]) -> None:
        for message in failed:
            error = message.error()
            assert error is not None  # noqa: S101 (for the type checker: the caller chose by it)
            match error.code():
                case KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public name)
                    if (one := self._open.get(_partition(message))) is not None:
                        one.reach(message.offset() or 0)
                case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE:  # noqa: SLF001
                    raise RecordsExpired(
                        f"records of {self._topic}/{message.partition()} were deleted before they were read "
                        f"({error.str()}); read from what is left, or raise the topic's retention"
                    )
                case KafkaError.GROUP_AUTHORIZATION_FAILED:
                    pass  # the client asks for its group's coordinator, which nothing here needs
                case _ if not error.retriable():
                    raise kafka_error(error, f"reading {self._topic}/{message.partition()}")

    def _where(self) -> str:
        places = ", ".join(f"{p} at offset {one.next_offset}" for p, one in self._open.items())
        return f"{self._topic}, partition {places}"


class Progress:
    """How far one partition is: the spans that are not read to their ends, and the offset that is expected next."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = deque(spans)
        self.next_offset = spans[0].start

    @property
    def is_done(self) -> bool:
        """Whether all spans are read."""
        return not self._spans

    @property
    def missing(self) -> int:
        """How many offsets of the present span are still to come."""
        return self._spans[0].end - self.next_offset

    def take(self, records: list[Message]) -> list[Message]:
        """Return those of the records that are wanted; they are in order, from the next offset on or later."""
        if not records or self.is_done:
            return []
        kept = []
        at = bisect_left(records, self.next_offset, key=_offset)
        while at < len(records) and self._spans:
            span = self._spans[0]
            first = bisect_left(records, span.start, at, key=_offset)
            at = bisect_left(records, span.end, first, key=_offset)
            kept += records[first:at]
            if at < len(records):
                self._spans.popleft()
        self.reach(_offset(records[-1]) + 1)
        return kept

    def reach(self, offset: int) -> None:
        """Everything before the offset was seen, or holds nothing."""
        self.next_offset = max(self.next_offset, offset)
        while self._spans and self._spans[0].end <= self.next_offset:
            self._spans.popleft()

    def jump(self) -> int | None:
        """The offset to go on from, if that is not the one that comes by itself."""
        start = self._spans[0].start
        if start <= self.next_offset:
            return None
        self.next_offset = start
        return start


def _by_partition(messages: list[Message], *, alone: bool) -> Iterable[tuple[int, list[Message]]]:
    if alone or not messages:
        return [(_partition(messages[0]), messages)] if messages else []
    together = groupby(sorted(messages, key=_partition), _partition)
    return ((partition, list(records)) for partition, records in together)


def _partition(message: Message) -> int:
    partition = message.partition()
    return -1 if partition is None else partition


def _offset(record: Message) -> int:
    offset = record.offset()
    assert offset is not None  # noqa: S101 (for the type checker: a record that was read has one)
    return offset
