"""The progress of one partition through its ranges, for `RangeConsumer`."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from confluent_kafka import Message

from dedupe_kafka.offsets import OffsetRange


class Progress:
    """One partition's progress: its incomplete ranges and the next expected offset."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self._ranges = deque(ranges)
        self.next_offset = ranges[0].low

    @property
    def is_done(self) -> bool:
        """Return whether all ranges are complete."""
        return not self._ranges

    @property
    def missing(self) -> int:
        """Return how many offsets of the present range are missing."""
        return self._ranges[0].end - self.next_offset

    def take(self, records: list[Message]) -> list[Message]:
        """Return the wanted ones of `records`, which are in order, and advance."""
        if not records or self.is_done:
            return []
        kept = []
        at = bisect_left(records, self.next_offset, key=_offset)
        while at < len(records) and self._ranges:
            offsets = self._ranges[0]
            first = bisect_left(records, offsets.low, at, key=_offset)
            at = bisect_left(records, offsets.end, first, key=_offset)
            kept += records[first:at]
            if at < len(records):
                self._ranges.popleft()
        self.reach(_offset(records[-1]) + 1)
        return kept

    def reach(self, offset: int) -> None:
        """Advance to an offset, before which every record was received."""
        self.next_offset = max(self.next_offset, offset)
        while self._ranges and self._ranges[0].end <= self.next_offset:
            self._ranges.popleft()

    def jump(self) -> int | None:
        """Return the offset to seek to, or None if the next record is wanted."""
        start = self._ranges[0].low
        if start <= self.next_offset:
            return None
        self.next_offset = start
        return start


def _offset(record: Message) -> int:
    offset = record.offset()
    assert offset is not None  # noqa: S101 (for the type checker: a consumed record has an offset)
    return offset
