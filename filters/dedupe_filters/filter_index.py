"""The claims of a topic's filters about the values that a reader wants.

The planner and the backfill refresh it before they plan. Invariant: only filters whose claim is reliable count.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from confluent_kafka import Message

from dedupe_filters.bloom import may_contain_any
from dedupe_filters.range_consumer import RangeConsumer
from dedupe_filters.range_plan import NO_TRANSACTION, UNKNOWN_PRODUCER, Claims
from dedupe_filters.values import FilterSource, Wanted
from dedupe_filters.wire_format import ChunkFilter, Origin, decode
from dedupe_kafka.offsets import OffsetRange, TopicOffsets

_LOG: Final = logging.getLogger(__name__)
# The most memory of filters that are read and not yet tested, of all partitions together, in bytes.
_PENDING_BYTES: Final = 4 << 20
_FILTER_BYTES: Final = 600  # of a decoded filter, in addition to its bits
_NEWEST: Final = 8  # offsets; they include a record unless as many transactions were aborted


class _Filter(NamedTuple):
    """A filter that counts, its partition, and the number of its producer."""

    partition: int
    producer: int
    chunk: ChunkFilter


class FilterIndex:
    """Reads <output>-filters; keeps of each filter its claim about the wanted values.

    A claim takes 25 bytes. While filters are read, at most 4 MiB of them wait for their test, in however many
    partitions. A filter counts if it is of the topic with the UUID `topic_id`, of values from `source`, and
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
        self._warned: set[int] = set()
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
        pending: list[_Filter] = []
        pending_bytes = 0
        for records in self._consumer.read(ranges):
            for found in self._reliable(records):
                pending.append(found)
                pending_bytes += _FILTER_BYTES + len(found.chunk.bloom.bits)
            if pending_bytes >= _PENDING_BYTES:
                self._learn(pending)
                pending, pending_bytes = [], 0
        self._learn(pending)
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

    def _reliable(self, records: Iterable[Message]) -> Iterable[_Filter]:
        for record in records:
            chunk = decode(record.value())
            if chunk is None:
                self._warn(record)
            elif (
                chunk.topic_id == self._topic_id and chunk.source == self._source and chunk.is_whole
            ):
                yield _Filter(record.partition() or 0, _producer(chunk, record.key()), chunk)

    def _warn(self, record: Message) -> None:
        """Name a record that is no filter, once for each partition."""
        partition = record.partition() or 0
        if partition in self._warned:
            return
        self._warned.add(partition)
        _LOG.warning(
            "%s/%d: the record at offset %s is no filter that this release can read; it is ignored, and the records "
            "that it describes are read. Let only the stream's workers and `dedupe index-filters` write to this topic.",
            record.topic(),
            partition,
            record.offset(),
        )

    def _learn(self, filters: list[_Filter]) -> None:
        """Test filters of any partitions together, and keep their claims."""
        matches = self._matches([each.chunk for each in filters])
        rows: defaultdict[int, list[tuple[int, int, int, bool]]] = defaultdict(list)
        for (partition, producer, chunk), match in zip(filters, matches, strict=True):
            rows[partition].append((chunk.first_offset, chunk.last_offset + 1, producer, match))
        for partition, claims in rows.items():
            parts = self._claims.setdefault(partition, [])
            parts.append(Claims.of(claims))
            # Few parts, because a small one takes more memory than its claims; each claim is copied a few times only.
            while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]):
                parts[-2:] = [Claims.joined(parts[-2:])]

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


def _producer(chunk: ChunkFilter, key: bytes | None) -> int:
    if chunk.origin is not Origin.TRANSACTION:
        return NO_TRANSACTION
    return _number(bytes(key)) if key else UNKNOWN_PRODUCER


@lru_cache(maxsize=1024)
def _number(transactional_id: bytes) -> int:
    """Return a positive number of 62 bits for a transactional id."""
    return (int.from_bytes(blake2b(transactional_id, digest_size=8).digest()) >> 2) + 1


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
