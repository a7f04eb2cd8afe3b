"""Reads the records of a topic that have one of some values, and skips what its filters rule out.

    with FilteredReader("localhost:9092", "orders-clean", values=["DE", "FR"]) as reader:
        for record in reader:
            print(record.offset(), record.value())

Equal to reading everything and choosing afterwards, whatever the filters say: each record that comes is looked at.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Final, Protocol, Self

from confluent_kafka import Message

from dedupe_filters.planner import GAP_OFFSETS, Place, Planner, Selection, offsets_at
from dedupe_filters.range_consumer import BULK, SPARSE, SpanFetcher, consumer_config
from dedupe_filters.range_plan import Plan, Span
from dedupe_filters.values import FilterSource, ValueOf, Wanted
from dedupe_kafka.client import Properties
from dedupe_kafka.cluster import TopicState

_STATISTICS_MS: Final = 100
_COUNT_SECONDS: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class ReadStatistics:
    """What a reader has done so far.

    `chunks` are filters that spoke of what was to be read, and `chunks_skipped` those that ruled their range out;
    `offsets` and `offsets_read` are how many offsets there were and how many had to be read; `records` came
    and `matched` were wanted; `bytes_fetched` is all that the broker has sent for them, as of the client's last count
    (every 0.1 s), compressed as it is.
    """

    chunks: int = 0
    chunks_skipped: int = 0
    offsets: int = 0
    offsets_read: int = 0
    records: int = 0
    matched: int = 0
    bytes_fetched: int = 0


class FilteredReader:
    """Iterable once: committed records (confluent_kafka.Message) that match, in order within a partition.

    Args:
        bootstrap_servers: brokers to ask first: host:port, several with commas.
        topic: the topic to read; its filters are in `<topic>-filters`.
        values: values of which one is wanted, as text or bytes; None for all records.
        match_unfiltered: whether records without a value are wanted, too.
        header, json_path: where the value is, one of both at most; without either, where the newest filters
            have it from.
        start: "earliest", "latest" or an offset for each partition; partitions that are not named are not read.
        end: an offset for each partition, before which reading ends; without it, the present end.
        follow: go on with what comes, until `stop` is called.
        poll_seconds: with `follow`, how long to wait at the end before looking again.
        gap_offsets: so many offsets between two ranges are fetched rather than skipped.
        properties: librdkafka client properties (SASL, TLS).

    Raises, as a rule when iterated:
        TopicMissing, NotAuthorized, BrokerUnavailable, InvalidConfig: as they say.
        RecordsExpired: records were deleted before they were read.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        values: Iterable[str | bytes] | None,
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
            raise ValueError("a value is in a header or at a JSON path: give one of both")
        if end is not None and follow:
            raise ValueError("with follow there is no end")
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
        self._fetcher = SpanFetcher(config | self._bytes.config, topic)
        self._counted = ReadStatistics()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        for records in self.batches():
            yield from records

    def batches(self) -> Iterator[list[Message]]:
        """Return the same records in lists, each of one partition; faster for what handles many at once."""
        state = self._planner.state()
        value_of = (
            None if self._selection.wanted is None else self._planner.source(state).extractor()
        )
        positions = offsets_at(self._start, state, self._selection.topic)
        while True:
            ends = self._ends(state, positions)
            spans = {p: Span(start, ends[p]) for p, start in positions.items()}
            plans = self._planner.plan(state, spans)
            self._count_plans(spans, plans)
            for records in self._fetcher.read({p: plan.spans for p, plan in plans.items()}):
                if matching := self._matching(records, value_of):
                    yield matching
                if self._stop.is_set():
                    return
            if self._poll_seconds is None or self._stop.wait(self._poll_seconds):
                return
            positions = {p: max(start, ends[p]) for p, start in positions.items()}
            self._planner.forget(positions)
            state = self._planner.state()
            positions |= self._new_partitions(state, positions)

    def stop(self) -> None:
        """End the iteration after the records at hand; may be called by another thread."""
        self._stop.set()

    @property
    def statistics(self) -> ReadStatistics:
        """What was done so far. Between iterations it waits for the client's next count of bytes."""
        self._bytes.refresh([self._fetcher, self._planner])
        return replace(self._counted, bytes_fetched=self._bytes.total)

    def close(self) -> None:
        """Let go of the connections."""
        self._fetcher.close()
        self._planner.close()

    def _ends(self, state: TopicState, positions: Mapping[int, int]) -> dict[int, int]:
        """Where to read to for now: nothing that is not final."""
        ends = {
            p: min(state.ends[p], (self._end or state.ends).get(p, state.ends[p]))
            for p in positions
        }
        return {p: max(end, positions[p]) for p, end in ends.items()}

    def _new_partitions(self, state: TopicState, known: Mapping[int, int]) -> dict[int, int]:
        if not isinstance(self._start, str):
            return {}
        return {p: low for p, low in state.lows.items() if p not in known}

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

    def _count_plans(self, spans: Mapping[int, Span], plans: Mapping[int, Plan]) -> None:
        counted = self._counted
        self._counted = replace(
            counted,
            chunks=counted.chunks + sum(plan.chunks for plan in plans.values()),
            chunks_skipped=counted.chunks_skipped
            + sum(plan.chunks_skipped for plan in plans.values()),
            offsets=counted.offsets + sum(max(0, span.offsets) for span in spans.values()),
            offsets_read=counted.offsets_read + sum(plan.offsets for plan in plans.values()),
        )


class _Client(Protocol):
    def poll(self, seconds: float) -> bool: ...


class _BytesReceived:
    """What clients have received from brokers, as they count it themselves."""

    def __init__(self) -> None:
        self._by_client: dict[str, int] = {}
        self._counted_at = 0.0
        self.config: dict[str, Any] = {
            "stats_cb": self._hear,
            "statistics.interval.ms": _STATISTICS_MS,
        }

    @property
    def total(self) -> int:
        """Bytes, of all clients."""
        return sum(self._by_client.values())

    def refresh(self, clients: Sequence[_Client]) -> None:
        """Wait for a new count of each client that can be asked."""
        deadline = time.monotonic() + _COUNT_SECONDS
        for client in clients:
            asked = time.monotonic()
            while client.poll(_STATISTICS_MS / 1000):
                if self._counted_at > asked or time.monotonic() > deadline:
                    break

    def _hear(self, statistics: str) -> None:
        counts = json.loads(statistics)
        self._counted_at = counts["ts"] / 1e6  # by the same clock as time.monotonic
        self._by_client[counts["name"]] = sum(b["rxbytes"] for b in counts["brokers"].values())
