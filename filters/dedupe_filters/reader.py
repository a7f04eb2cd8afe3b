"""Read the records of a topic with wanted values; skip what its filters rule out.

    with FilteredReader("localhost:9092", "orders-clean", values=["DE", "FR"]) as reader:
        for record in reader:
            print(record.offset(), record.value())

Invariant: the result equals a read of everything, filtered afterwards, whatever the filters claim, because each
received record is checked as well.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Final, Protocol, Self

from confluent_kafka import Message

from dedupe_crds.deadline import Deadline
from dedupe_filters.planner import Planner
from dedupe_filters.range_consumer import BULK, SPARSE, RangeConsumer, consumer_config
from dedupe_filters.range_plan import Plan
from dedupe_filters.selection import GAP_OFFSETS, Place, Selection, check_reached, offsets_at
from dedupe_filters.values import FilterSource, ValueOf, Wanted
from dedupe_kafka.client import Properties
from dedupe_kafka.offsets import OffsetRange, TopicOffsets

_STATISTICS_MS: Final = 100
_COUNT_SECONDS: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class ReadStatistics:
    """The work of a reader so far.

    `chunks` counts the filters of the requested ranges, `chunks_skipped` those that ruled their range out; `offsets` is
    the number of requested offsets, `offsets_read` of those that had to be read; `records` were received and `matched`
    of them were wanted; `bytes_fetched` is all that the broker sent, compressed, as of the client's last count (every
    0.1 s).
    """

    chunks: int = 0
    chunks_skipped: int = 0
    offsets: int = 0
    offsets_read: int = 0
    records: int = 0
    matched: int = 0
    bytes_fetched: int = 0


class FilteredReader:
    """An iterable, once, of the matching committed records.

    The records are `confluent_kafka.Message`, in order within a partition.

    Args:
        bootstrap_servers: brokers to ask first: host:port, several with commas.
        topic: the topic to read; its filters are in `<topic>-filters`.
        values: the wanted value or values, as text or bytes; None for all records.
        match_unfiltered: whether records without a value are wanted as well.
        header, json_path: the source of the value, at most one of both; by default the source of the newest
            filters.
        start: "earliest", "latest" or an offset for each partition; partitions without an offset are not read.
        end: an offset for each partition, before which the read ends; by default the present end.
        follow: continue with new records until `stop` is called.
        poll_seconds: with `follow`, the interval of the polls at the end of the topic.
        gap_offsets: a gap of at most so many offsets between two ranges is fetched, not skipped.
        properties: librdkafka client properties (SASL, TLS).

    Raises, mostly during the iteration:
        TypeError: a wanted value is neither text nor bytes.
        TopicMissing, NotAuthorized, BrokerUnavailable, InvalidConfig: see `dedupe_kafka.errors`.
        RecordsExpired: records were deleted before they were read.
        RecordsLost: with `follow`, the topic ends before what was read of it.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        values: str | bytes | Iterable[str | bytes] | None,
        match_unfiltered: bool = False,
        header: str | None = None,
        json_path: str | None = None,
        start: Place = "earliest",
        end: Mapping[int, int] | None = None,
        follow: bool = False,
        poll_seconds: float = 0.5,
        gap_offsets: int = GAP_OFFSETS,
        properties: Properties | None = None,
    ) -> None:
        if header is not None and json_path is not None:
            raise ValueError("a value is in a header or at a JSON path: give only one of the two")
        if end is not None and follow:
            raise ValueError("follow=True reads without end: leave out the end")
        source = FilterSource.header(header) if header is not None else None
        if json_path is not None:
            source = FilterSource.json_path(json_path, "json_path")
        wanted = None if values is None else Wanted.of(values, unfiltered=match_unfiltered)
        self._selection = Selection(
            bootstrap_servers=bootstrap_servers,
            topic=topic,
            wanted=wanted,
            source=source,
            gap_offsets=gap_offsets,
            properties=properties or {},
        )
        self._start, self._end = start, end
        self._poll_seconds = poll_seconds if follow else None
        self._stop = Event()
        self._bytes = _BytesReceived()
        self._planner = Planner(self._selection, self._bytes.config)
        fetching = BULK if wanted is None else SPARSE
        config = consumer_config(bootstrap_servers, self._selection.properties, fetching)
        self._ranges = RangeConsumer(config | self._bytes.config, topic)
        self._counted = ReadStatistics()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        for records in self.batches():
            yield from records

    def batches(self) -> Iterator[list[Message]]:
        """Yield the same records in lists of one partition, which is faster."""
        topic_offsets = self._planner.topic_offsets()
        value_of = (
            None
            if self._selection.wanted is None
            else self._planner.source(topic_offsets).extractor()
        )
        started = offsets_at(self._start, topic_offsets, self._selection.topic)
        positions = dict(started)
        while True:
            ends = self._ends(topic_offsets, positions)
            ranges = {p: OffsetRange(start, ends[p]) for p, start in positions.items()}
            plans = self._planner.plan(topic_offsets, ranges)
            self._count_plans(ranges, plans)
            for records in self._ranges.read({p: plan.ranges for p, plan in plans.items()}):
                if matching := self._matching(records, value_of):
                    yield matching
                if self._stop.is_set():
                    return
            if self._poll_seconds is None or self._stop.wait(self._poll_seconds):
                return
            positions = {p: max(start, ends[p]) for p, start in positions.items()}
            self._planner.forget(positions)
            topic_offsets = self._planner.topic_offsets()
            read_to = {p: at for p, at in positions.items() if at > started[p]}
            check_reached(read_to, topic_offsets, self._selection.topic)
            added = self._new_partitions(topic_offsets, positions)
            positions |= added
            started |= added

    def stop(self) -> None:
        """End the iteration after the current list; another thread may call it."""
        self._stop.set()

    @property
    def statistics(self) -> ReadStatistics:
        """Return the work so far; waits for the client's next count between iterations."""
        self._bytes.refresh([self._ranges, self._planner])
        return replace(self._counted, bytes_fetched=self._bytes.total)

    def close(self) -> None:
        """Close the connections."""
        self._ranges.close()
        self._planner.close()

    def _ends(self, topic_offsets: TopicOffsets, positions: Mapping[int, int]) -> dict[int, int]:
        """Return the ends of the next read, at most the last stable offsets."""
        ends = {
            p: min(
                topic_offsets.ends[p],
                (self._end or topic_offsets.ends).get(p, topic_offsets.ends[p]),
            )
            for p in positions
        }
        return {p: max(end, positions[p]) for p, end in ends.items()}

    def _new_partitions(
        self, topic_offsets: TopicOffsets, known: Mapping[int, int]
    ) -> dict[int, int]:
        if not isinstance(self._start, str):
            return {}
        return {p: low for p, low in topic_offsets.lows.items() if p not in known}

    def _matching(self, records: list[Message], value_of: ValueOf | None) -> list[Message]:
        wanted = self._selection.wanted
        if value_of is None or wanted is None:
            matching = records
        else:
            matching = [record for record in records if wanted.selects(value_of(record))]
        counted = self._counted
        self._counted = replace(
            counted,
            records=counted.records + len(records),
            matched=counted.matched + len(matching),
        )
        return matching

    def _count_plans(self, ranges: Mapping[int, OffsetRange], plans: Mapping[int, Plan]) -> None:
        counted = self._counted
        self._counted = replace(
            counted,
            chunks=counted.chunks + sum(plan.chunks for plan in plans.values()),
            chunks_skipped=counted.chunks_skipped
            + sum(plan.chunks_skipped for plan in plans.values()),
            offsets=counted.offsets + sum(max(0, offsets.count) for offsets in ranges.values()),
            offsets_read=counted.offsets_read + sum(plan.offset_count for plan in plans.values()),
        )


class _Client(Protocol):
    def poll(self, seconds: float) -> bool: ...


class _BytesReceived:
    """The bytes that clients received from brokers, by their own statistics."""

    def __init__(self) -> None:
        self._by_client: dict[str, int] = {}
        self._counted_at = 0.0
        self.config: dict[str, Any] = {
            "stats_cb": self._hear,
            "statistics.interval.ms": _STATISTICS_MS,
        }

    @property
    def total(self) -> int:
        """Return the bytes of all clients."""
        return sum(self._by_client.values())

    def refresh(self, clients: Sequence[_Client]) -> None:
        """Wait for a new count of each open client."""
        deadline = Deadline(_COUNT_SECONDS)
        for each in clients:
            requested = time.monotonic()
            while each.poll(_STATISTICS_MS / 1000):
                if self._counted_at > requested or deadline.expired:
                    break

    def _hear(self, statistics: str) -> None:
        counts = json.loads(statistics)
        self._counted_at = counts["ts"] / 1e6  # by the same clock as time.monotonic
        self._by_client[counts["name"]] = sum(b["rxbytes"] for b in counts["brokers"].values())
