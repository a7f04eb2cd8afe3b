"""Build the filter of an offset range from its records, as they arrive.

The worker uses it for its transactions, the backfill for chunks that it reads.
"""

from collections.abc import Sequence
from operator import itemgetter, methodcaller
from typing import Final, NamedTuple

from dedupe_filters.bloom import build, full
from dedupe_filters.values import FilterSource, Record
from dedupe_filters.wire_format import ChunkFilter, Origin, encode

_NOW: Final = 0  # librdkafka replaces it by the time of sending
_TIMESTAMP: Final = methodcaller("timestamp")
_MILLISECONDS: Final = itemgetter(1)  # of (type, milliseconds)


class FilterRecord(NamedTuple):
    """The value and the timestamp of a record of the filters topic; it has no key."""

    value: bytes
    timestamp_ms: int


class FilterBuilder:
    """Builds one filter after another: `add` records, then `finish` the range.

    Not to be shared between threads. `source` is the source of a record's value, `size_bytes` the size of a filter,
    `topic_id` the output topic's UUID.
    """

    def __init__(self, source: FilterSource, size_bytes: int, topic_id: str) -> None:
        self._source = source
        self._size_bytes = size_bytes
        self._topic_id = topic_id
        self._values_of = source.batch_extractor()
        self._full = full(size_bytes)
        self.clear()

    def clear(self) -> None:
        """Discard the open range, for example when its transaction is aborted."""
        self.records = 0
        self._latest_ms = 1
        self._values: set[bytes | None] = set()

    @property
    def distinct(self) -> int:
        """Return the number of distinct values in the open range.

        "No value" counts as a value. The number is not exact once the filter is full.
        """
        return len(self._values)

    def add(self, records: Sequence[Record]) -> None:
        """Add records to the open range; about 0.2 us a record for a header's value."""
        if not records:
            return
        self.records += len(records)
        latest_ms = max(map(_MILLISECONDS, map(_TIMESTAMP, records)))
        self._latest_ms = max(self._latest_ms, latest_ms)
        found = set(self._values_of(records))
        # A full filter matches all values anyway, but "no value" is said apart from it.
        self._values |= found if len(self._values) <= self._full else found & {None}

    def finish(self, first_offset: int, last_offset: int, origin: Origin) -> FilterRecord:
        """Return the filter of the added records, and begin the next range.

        The records are those from `first_offset` to `last_offset`, included.
        """
        chunk = ChunkFilter(
            topic_id=self._topic_id,
            source=self._source,
            origin=origin,
            first_offset=first_offset,
            last_offset=last_offset,
            records=self.records,
            unfiltered=None in self._values,
            bloom=build((v for v in self._values if v is not None), self._size_bytes),
        )
        timestamp_ms = self._latest_ms if self.records else _NOW
        self.clear()
        return FilterRecord(encode(chunk), timestamp_ms)
