"""Writes the filters that a topic lacks: of before it had any, or made from something else by then.

Safe at any time, beside a worker and beside itself: each filter is a claim about records that were read, so those
of others for the same offsets do no harm. What a run has written before it was killed stays, and the next goes on
from there.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from dedupe_filters.builder import Collector, FilterRecord
from dedupe_filters.filter_index import FilterIndex
from dedupe_filters.planner import ask_state
from dedupe_filters.range_consumer import BULK, RecordsExpired, SpanFetcher, consumer_config
from dedupe_filters.range_plan import Span, uncovered
from dedupe_filters.values import FilterSource, Wanted
from dedupe_filters.wire_format import Origin
from dedupe_kafka.client import Properties, client_config, kafka_error, made
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.side_topics import filters_topic

_MAX_RECORDS: Final = 10_000
_STEP_RECORDS: Final = 500
# For each byte of a filter: 32 values in 16 bytes have 14 % of false matches.
_VALUES_PER_BYTE: Final = 2
_TRIES: Final = 5
_FLUSH_SECONDS: Final = 60.0

OnProgress = Callable[[int, int], None]
"""Called with how many offsets are done, and how many there are to do."""


@dataclass(frozen=True, kw_only=True)
class Indexed:
    """What a run has done: `filters` that it wrote, of so many `records`."""

    filters: int
    records: int


def index_topic(
    bootstrap_servers: str,
    topic: str,
    source: FilterSource,
    size_bytes: int,
    *,
    properties: Properties,
    on_progress: OnProgress,
) -> Indexed:
    """Write the filters that are missing of what a topic holds now, and wait until they are there.

    The filters topic must exist. `source` is where values are, `size_bytes` the size of a filter.

    Raises:
        StreamError: Kafka does not answer or refuses; TopicMissing: one of the two topics is absent.
    """
    for tries_left in reversed(range(_TRIES)):
        run = _Run(bootstrap_servers, topic, source, size_bytes, properties)
        try:
            return run.index(on_progress)
        except RecordsExpired:
            # Retention has deleted the oldest of what was to be indexed, so there is less to do now.
            if not tries_left:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


class _Run:
    """One try."""

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
        self._writer = Writer(client_config(bootstrap_servers, properties), self._filters)

    def index(self, on_progress: OnProgress) -> Indexed:
        state = ask_state(self._cluster, self._topic)
        missing = self._missing(state.id, state.lows, state.ends)
        cutters = {
            partition: Cutter(
                spans, Collector(self._source, self._size_bytes, state.id), self._size_bytes
            )
            for partition, spans in missing.items()
        }
        total = sum(span.offsets for spans in missing.values() for span in spans)
        on_progress(0, total)
        with closing(SpanFetcher(self._config, self._topic)) as fetcher:
            for records in fetcher.read(missing):
                partition = records[0].partition() or 0
                for made_of in cutters[partition].add(records):
                    self._writer.write(partition, made_of)
                on_progress(sum(cutter.done for cutter in cutters.values()), total)
        for partition, cutter in cutters.items():
            for made_of in cutter.finish():
                self._writer.write(partition, made_of)
        self._writer.flush()
        on_progress(total, total)
        return Indexed(
            filters=self._writer.written, records=sum(cutter.records for cutter in cutters.values())
        )

    def _missing(
        self, topic_id: str, lows: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[int, tuple[Span, ...]]:
        """The offsets of each partition of which no filter speaks."""
        with closing(
            SpanFetcher(self._config | {"auto.offset.reset": "earliest"}, self._filters)
        ) as fetcher:
            index = FilterIndex(fetcher, topic_id, self._source, Wanted.of([]))
            index.refresh(ask_state(self._cluster, self._filters))
        return {
            partition: uncovered(
                Span(low, ends[partition]), index.claims(partition), stable_end=ends[partition]
            )
            for partition, low in lows.items()
        }


class Cutter:
    """Cuts what comes of the spans of one partition into ranges, each with a filter that is neither full nor wasted.

    Together the ranges cover the spans to the last offset. A range ends at a record, or with its span.
    """

    def __init__(self, spans: Sequence[Span], collector: Collector, size_bytes: int) -> None:
        self._spans = list(reversed(spans))
        self._collector = collector
        self._most_values = _VALUES_PER_BYTE * size_bytes
        self._start = spans[0].start if spans else 0
        self.done = 0
        self.records = 0

    def add(self, records: Sequence[Message]) -> Iterator[FilterRecord]:
        """Take records, in order, from the spans; return the filters of the ranges that are through."""
        at = 0
        while at < len(records):
            span = self._spans[-1]
            if _offset(records[at]) >= span.end:
                yield from self._through(span.end)
                continue
            room = _STEP_RECORDS - self._collector.records % _STEP_RECORDS
            end = min(bisect_left(records, span.end, at, key=_offset), at + room)
            self._collector.add(records[at:end])
            self.records += end - at
            at = end
            if self._is_enough():
                yield from self._through(_offset(records[at - 1]) + 1)

    def finish(self) -> Iterator[FilterRecord]:
        """Return the filters of the rest, in which there are no more records."""
        while self._spans:
            yield from self._through(self._spans[-1].end)

    def _is_enough(self) -> bool:
        records = self._collector.records
        return records >= _MAX_RECORDS or (
            records % _STEP_RECORDS == 0 and self._collector.distinct > self._most_values
        )

    def _through(self, end: int) -> Iterator[FilterRecord]:
        """Close the open range before `end`, which is in or at the end of the present span."""
        if self._start < end:
            self.done += end - self._start
            yield self._collector.finish(self._start, end - 1, Origin.READ)
            self._start = end
        if end == self._spans[-1].end:
            self._spans.pop()
            if self._spans:
                self._start = self._spans[-1].start


class Writer:
    """Appends filters to the filters topic, to the partition of what they speak of."""

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self._producer = made(Producer, {**config, "acks": "all", "enable.idempotence": True})
        self._topic = topic
        self._error: KafkaError | None = None
        self.written = 0

    def write(self, partition: int, record: FilterRecord) -> None:
        """Send a filter on its way. Raises what became of it, or of one before."""
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
            except KafkaException as error:
                raise kafka_error(error, f"writing filters to {self._topic}") from error
            else:
                break
        self.written += 1
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        """Wait until all is there."""
        left = self._producer.flush(_FLUSH_SECONDS)
        self._check()
        if left:
            raise BrokerUnavailable(
                f"{left} filters for {self._topic} were not taken within {_FLUSH_SECONDS:.0f} s; run this again, it "
                "goes on where it was"
            )

    def _report(self, error: KafkaError | None, _message: Message) -> None:
        self._error = self._error or error

    def _check(self) -> None:
        if self._error is not None:
            raise kafka_error(self._error, f"writing filters to {self._topic}")


def _offset(record: Message) -> int:
    offset = record.offset()
    assert offset is not None  # noqa: S101 (for the type checker: a record that was read has one)
    return offset
