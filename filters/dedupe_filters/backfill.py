"""Write the filters that a topic lacks, for `dedupe index-filters`.

Filters are missing for records that are older than the filters, and after a change of the values' source.

Invariant: safe at any time, together with a worker or with another backfill. Each filter is a claim about records that
were read, so several filters for the same offsets do no harm. The filters that a killed run wrote stay valid, and the
next run continues after them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

from dedupe_filters.builder import FilterBuilder, FilterRecord
from dedupe_filters.filter_index import FilterIndex
from dedupe_filters.planner import read_offsets
from dedupe_filters.range_consumer import BULK, RangeConsumer, consumer_config
from dedupe_filters.range_plan import uncovered
from dedupe_filters.values import FilterSource, Wanted
from dedupe_filters.wire_format import Origin
from dedupe_kafka.client import Properties, calling, client_config, kafka_error, made
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import BrokerUnavailable, RecordsExpired
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.side_topics import filters_topic

_MAX_RECORDS: Final = 10_000
_STEP_RECORDS: Final = 500
# Values for each byte of a filter: 32 values in 16 bytes have 14 % of false matches.
_VALUES_PER_BYTE: Final = 2
_TRIES: Final = 5
_FLUSH_SECONDS: Final = 60.0

OnProgress = Callable[[int, int], None]
"""Called with the number of offsets that are done, and the total."""


@dataclass(frozen=True, kw_only=True)
class BackfillResult:
    """The number of `filters` that a run wrote, and of the `records` they cover."""

    filters: int
    records: int


def backfill_topic(
    bootstrap_servers: str,
    topic: str,
    source: FilterSource,
    size_bytes: int,
    *,
    properties: Properties,
    on_progress: OnProgress,
) -> BackfillResult:
    """Write the missing filters of a topic's present records, and flush them.

    The filters topic must exist. `source` is the source of the values, `size_bytes` the size of a filter.

    Raises:
        StreamError: Kafka does not answer or refuses; TopicMissing: one of the two topics is absent.
    """
    for tries_left in reversed(range(_TRIES)):
        run = _Run(bootstrap_servers, topic, source, size_bytes, properties)
        try:
            return run.index(on_progress)
        except RecordsExpired:
            # Retention deleted the oldest records meanwhile, so the next try has less to do.
            if not tries_left:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


class _Run:
    """One attempt."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        source: FilterSource,
        size_bytes: int,
        properties: Properties,
    ) -> None:
        self._topic = topic
        self._filters = filters_topic(topic)
        self._source = source
        self._size_bytes = size_bytes
        self._cluster = Cluster(bootstrap_servers, properties)
        self._config = consumer_config(bootstrap_servers, properties, BULK)
        self._filter_producer = FilterProducer(
            client_config(bootstrap_servers, properties), self._filters
        )

    def index(self, on_progress: OnProgress) -> BackfillResult:
        topic_offsets = read_offsets(self._cluster, self._topic)
        missing = self._missing(topic_offsets.id, topic_offsets.lows, topic_offsets.ends)
        cutters = {
            partition: RangeCutter(
                ranges,
                FilterBuilder(self._source, self._size_bytes, topic_offsets.id),
                self._size_bytes,
            )
            for partition, ranges in missing.items()
        }
        total = sum(offsets.count for ranges in missing.values() for offsets in ranges)
        on_progress(0, total)
        with closing(RangeConsumer(self._config, self._topic)) as consumer:
            for records in consumer.read(missing):
                partition = records[0].partition() or 0
                for chunk in cutters[partition].add(records):
                    self._filter_producer.write(partition, chunk)
                on_progress(sum(cutter.done for cutter in cutters.values()), total)
        for partition, cutter in cutters.items():
            for chunk in cutter.finish():
                self._filter_producer.write(partition, chunk)
        self._filter_producer.flush()
        on_progress(total, total)
        return BackfillResult(
            filters=self._filter_producer.written,
            records=sum(cutter.records for cutter in cutters.values()),
        )

    def _missing(
        self, topic_id: str, lows: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[int, tuple[OffsetRange, ...]]:
        """Return the offsets of each partition that no filter covers."""
        with closing(
            RangeConsumer(self._config | {"auto.offset.reset": "earliest"}, self._filters)
        ) as consumer:
            index = FilterIndex(consumer, topic_id, self._source, Wanted.of([]))
            index.refresh(read_offsets(self._cluster, self._filters))
        return {
            partition: uncovered(
                OffsetRange(low, ends[partition]),
                index.claims(partition),
                stable_end=ends[partition],
            )
            for partition, low in lows.items()
        }


class RangeCutter:
    """Cuts the missing ranges of a partition into chunks and builds their filters.

    A chunk is large enough to use its filter, and small enough not to fill it. Together the chunks cover the ranges to
    the last offset. A chunk ends at a record, or at the end of its range.
    """

    def __init__(
        self, ranges: Sequence[OffsetRange], builder: FilterBuilder, size_bytes: int
    ) -> None:
        self._ranges = list(reversed(ranges))
        self._builder = builder
        self._most_values = _VALUES_PER_BYTE * size_bytes
        self._start = ranges[0].low if ranges else 0
        self.done = 0
        self.records = 0

    def add(self, records: Sequence[Message]) -> Iterator[FilterRecord]:
        """Take the next records of the ranges; yield the filters of complete chunks."""
        at = 0
        while at < len(records):
            offsets = self._ranges[-1]
            if _offset(records[at]) >= offsets.end:
                yield from self._close(offsets.end)
                continue
            room = _STEP_RECORDS - self._builder.records % _STEP_RECORDS
            end = min(bisect_left(records, offsets.end, at, key=_offset), at + room)
            self._builder.add(records[at:end])
            self.records += end - at
            at = end
            if self._is_enough():
                yield from self._close(_offset(records[at - 1]) + 1)

    def finish(self) -> Iterator[FilterRecord]:
        """Yield the filters of the rest, which holds no more records."""
        while self._ranges:
            yield from self._close(self._ranges[-1].end)

    def _is_enough(self) -> bool:
        records = self._builder.records
        return records >= _MAX_RECORDS or (
            records % _STEP_RECORDS == 0 and self._builder.distinct > self._most_values
        )

    def _close(self, end: int) -> Iterator[FilterRecord]:
        """Close the open chunk before `end`, which is at most the end of its range."""
        if self._start < end:
            self.done += end - self._start
            yield self._builder.finish(self._start, end - 1, Origin.READ)
            self._start = end
        if end == self._ranges[-1].end:
            self._ranges.pop()
            if self._ranges:
                self._start = self._ranges[-1].low


class FilterProducer:
    """Produces filters to the filters topic, to the partition that they describe."""

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self._producer = made(Producer, {**config, "acks": "all", "enable.idempotence": True})
        self._topic = topic
        self._error: KafkaError | None = None
        self.written = 0

    def write(self, partition: int, record: FilterRecord) -> None:
        """Produce a filter. Raises the error of this filter or of an earlier one."""
        with self._writing():
            while True:
                try:
                    self._producer.produce(
                        self._topic,
                        record.value,
                        partition=partition,
                        timestamp=record.timestamp_ms,
                        on_delivery=self._report,
                    )
                except BufferError:
                    self._producer.poll(0.1)
                else:
                    break
            self._producer.poll(0)
        self.written += 1
        self._check()

    def flush(self) -> None:
        """Wait until Kafka has acknowledged every filter."""
        with self._writing():
            left = self._producer.flush(_FLUSH_SECONDS)
        self._check()
        if left:
            raise BrokerUnavailable(
                f"Kafka did not acknowledge {left} filters for {self._topic} within {_FLUSH_SECONDS:.0f} s; run "
                "this again, it continues where it stopped"
            )

    def _writing(self) -> AbstractContextManager[None]:
        return calling(f"writing filters to {self._topic}")

    def _report(self, error: KafkaError | None, _message: Message) -> None:
        self._error = self._error or error

    def _check(self) -> None:
        if self._error is not None:
            raise kafka_error(self._error, f"writing filters to {self._topic}")


def _offset(record: Message) -> int:
    offset = record.offset()
    assert offset is not None  # noqa: S101 (for the type checker: a consumed record has an offset)
    return offset
