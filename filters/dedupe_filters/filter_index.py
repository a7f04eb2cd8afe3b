"""The claims of a topic's filters about the values that a reader wants.

The planner and the backfill refresh it before they plan. Invariant: only filters whose claim is reliable count.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter

import numpy as np
from confluent_kafka import Message

from dedupe_filters.bloom import may_contain_any
from dedupe_filters.range_consumer import RangeConsumer
from dedupe_filters.range_plan import Claims
from dedupe_filters.values import FilterSource, Wanted
from dedupe_filters.wire_format import ChunkFilter, Origin, decode
from dedupe_kafka.offsets import OffsetRange, TopicOffsets

_BATCH = 50_000
_NEWEST = 8  # offsets; they include a record unless as many transactions were aborted


class FilterIndex:
    """Reads <output>-filters; keeps of each filter its claim about the wanted values.

    A claim takes 18 bytes. A filter counts if it is of the topic with the UUID `topic_id`, of values from `source`, and
    of every record in its range; see wire_format.py.
    """

    def __init__(
        self, consumer: RangeConsumer, topic_id: str, source: FilterSource, wanted: Wanted
    ) -> None:
        self._consumer = consumer
        self._topic_id = topic_id
        self._source = source
        self._wanted = wanted
        self._filters_id = ""
        self._positions: dict[int, int] = {}
        self._claims: dict[int, list[Claims]] = {}

    def refresh(self, filters: TopicOffsets) -> None:
        """Read the filters that the topic holds now and that were not read before."""
        if filters.id != self._filters_id:
            self._filters_id = filters.id
            self._positions = {}
        ranges = {
            partition: [OffsetRange(start, end)]
            for partition, end in filters.ends.items()
            if (start := max(filters.lows[partition], self._positions.get(partition, 0))) < end
        }
        pending: dict[int, list[ChunkFilter]] = {}
        for records in self._consumer.read(ranges):
            partition = records[0].partition() or 0
            kept = pending.setdefault(partition, [])
            kept += self._reliable(records)
            if len(kept) >= _BATCH:
                self._learn(partition, pending.pop(partition))
        for partition, chunks in pending.items():
            self._learn(partition, chunks)
        self._positions |= {partition: offsets[0].end for partition, offsets in ranges.items()}

    def claims(self, partition: int) -> Claims:
        """Return all claims about a partition of the output."""
        joined = Claims.joined(self._claims.get(partition, []))
        self._claims[partition] = [joined]
        return joined

    def forget(self, befores: Mapping[int, int]) -> None:
        """Discard the claims that cover only offsets before these, by partition."""
        for partition, before in befores.items():
            # The claim of the transaction before a marker shows that it is a marker.
            self._claims[partition] = [
                self.claims(partition).within(OffsetRange(before - 1, 1 << 62))
            ]

    def _reliable(self, records: Iterable[Message]) -> Iterable[ChunkFilter]:
        for record in records:
            chunk = decode(record.value())
            if (
                chunk is not None
                and chunk.topic_id == self._topic_id
                and chunk.source == self._source
                and chunk.is_whole
            ):
                yield chunk

    def _learn(self, partition: int, chunks: list[ChunkFilter]) -> None:
        if not chunks:
            return
        matches = self._matches(chunks)
        self._claims.setdefault(partition, []).append(
            Claims.of(
                (
                    chunk.first_offset,
                    chunk.last_offset + 1,
                    chunk.origin is Origin.TRANSACTION,
                    match,
                )
                for chunk, match in zip(chunks, matches, strict=True)
            )
        )

    def _matches(self, chunks: list[ChunkFilter]) -> list[bool]:
        """Test which chunks may hold a wanted value, all filters of one size together."""
        matches = [chunk.unfiltered and self._wanted.unfiltered for chunk in chunks]
        by_size = sorted((len(chunk.bloom.bits), at) for at, chunk in enumerate(chunks))
        for size, group in groupby(by_size, itemgetter(0)):
            places = [at for _, at in group]
            joined = b"".join(chunks[at].bloom.bits for at in places)
            bits = np.frombuffer(joined, np.uint8).reshape(-1, size)
            hashes = np.array([chunks[at].bloom.hashes for at in places])
            found = may_contain_any(bits, hashes, self._wanted.values)
            for at, found_there in zip(places, found.tolist(), strict=True):
                matches[at] = matches[at] or found_there
        return matches


def newest_sources(
    consumer: RangeConsumer, topic_id: str, filters: TopicOffsets
) -> set[FilterSource]:
    """Return the sources of the newest filter of each partition."""
    ranges = {
        partition: [
            OffsetRange(max(low, filters.ends[partition] - _NEWEST), filters.ends[partition])
        ]
        for partition, low in filters.lows.items()
        if low < filters.ends[partition]
    }
    newest: dict[int, FilterSource] = {}
    for records in consumer.read(ranges):
        for record in records:
            chunk = decode(record.value())
            if chunk is not None and chunk.topic_id == topic_id:
                newest[record.partition() or 0] = chunk.source
    return set(newest.values())
