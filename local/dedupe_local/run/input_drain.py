"""Drain condition of routers: have they routed the inputs up to given end offsets?

`routed_drain` calls it. Pure: no clock, no I/O.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from dedupe_kafka.offsets import Place

_MOST_NAMED: Final = 10


class InputDrain:
    """Tracks the offsets that routers commit up to the end offsets in `ends`.

    They have stalled if none of these partitions made progress for `stall_seconds`: routers share the partitions, so
    one may wait while another is read. Progress is a higher offset than ever before, below its end: what comes later
    does not hide a partition that is stuck.
    """

    def __init__(self, ends: Mapping[Place, int], stall_seconds: float, now: float) -> None:
        self._ends = dict(sorted(ends.items()))
        self._furthest = dict.fromkeys(self._ends, 0)
        self._stall_seconds = stall_seconds
        self._moved_at = now

    def extend(self, ends: Mapping[Place, int]) -> None:
        """Add partitions whose ends were not known."""
        self._ends |= ends
        self._furthest |= dict.fromkeys(ends, 0)

    def observe(self, committed: Mapping[Place, int], now: float) -> None:
        """Record committed offsets; a partition without one is where it was."""
        for place, offset in committed.items():
            reached = min(offset, self._ends[place])
            if reached > self._furthest[place]:
                self._furthest[place] = reached
                self._moved_at = now

    def wait_for_workers(self, moved_at: float) -> None:
        """Count the last progress of the workers, for which routers wait, as theirs."""
        self._moved_at = max(self._moved_at, moved_at)

    @property
    def left(self) -> list[Place]:
        """Return the partitions that are not at their end."""
        return [place for place, end in self._ends.items() if self._furthest[place] < end]

    def is_stalled(self, now: float) -> bool:
        """Return whether no partition makes progress."""
        return now - self._moved_at >= self._stall_seconds

    def missing(self) -> Sequence[str]:
        """Return a sentence for each partition that is not at its end, if they are few."""
        left = self.left
        named = [
            f"input {place[0]}, partition {place[1]} is routed up to offset {self._furthest[place]} "
            f"of {self._ends[place]}"
            for place in left[:_MOST_NAMED]
        ]
        more = len(left) - len(named)
        return [*named, f"and {more} more partitions of the input"] if more else named
