"""Decide when a generation is sealed and when it is dropped.

The stores call this. Invariant: decisions only, no I/O.

The window of ids is a row of generations, each a RocksDB column family. New ids go to the newest; when it holds its
share it is sealed and the next one begins; when the whole is over its bounds the oldest is dropped at once. Nothing is
ever scanned or deleted key by key. Source: Segment, "Delivering billions of messages exactly once"
(size first, oldest first); the split into generations is ours, see docs/decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The window's bounds. `max_bytes` on disk, over all generations.

    `generations` is how finely it ages.
    """

    max_bytes: int
    max_age: timedelta
    generations: int

    @property
    def generation_bytes(self) -> int:
        """Return the size at which a generation is sealed."""
        return self.max_bytes // self.generations

    @property
    def largest_write_records(self) -> int:
        """Return how many ids may be written at once.

        A thirty-second of a generation, at some 36 bytes each in memory.

        More would fill several memtables before the next ageing, and make a small window exceed its bound.
        """
        return max(1000, self.generation_bytes // 32 // 36)

    @property
    def generation_age(self) -> timedelta:
        """Return the age at which even a small generation is sealed."""
        return self.max_age / self.generations


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The description of one generation.

    Times are Unix milliseconds of when its ids were seen, by the wall clock and by the clock by which ids age
    (dedup/ageing_clock.py); 0 while empty.
    """

    name: str
    keys: int
    size_bytes: int
    first_seen_ms: int
    last_seen_ms: int
    aged_from_ms: int
    aged_to_ms: int


@dataclass(frozen=True, slots=True)
class Ageing:
    """The decision: whether to seal the newest generation, and which to drop."""

    seal: bool
    drop: tuple[str, ...]
    drops_for_size: bool


def plan_ageing(generations: Sequence[Generation], bounds: Bounds, now_ms: int) -> Ageing:
    """Decide from the generations, oldest first; the newest is written to.

    `now_ms` is of the clock by which ids age.

    The newest is never dropped: its ids are in use by the running transaction.
    """
    newest = generations[-1]
    seal = newest.keys > 0 and (
        newest.size_bytes >= bounds.generation_bytes
        or now_ms - newest.aged_from_ms >= _milliseconds(bounds.generation_age)
    )
    sealed = generations if seal else generations[:-1]
    total = sum(g.size_bytes for g in generations)
    oldest_kept_ms = now_ms - _milliseconds(bounds.max_age)
    drop: list[str] = []
    drops_for_size = False
    for generation in sealed:
        over_size = total > bounds.max_bytes
        if not over_size and generation.aged_to_ms > oldest_kept_ms:
            break
        if generation is newest:
            break
        drop.append(generation.name)
        drops_for_size |= over_size
        total -= generation.size_bytes
    return Ageing(seal, tuple(drop), drops_for_size)


def window_seconds(generations: Sequence[Generation], now_ms: int) -> float:
    """Return the age of the oldest id in the store, by the clock by which ids age.

    0 while there is none.
    """
    first = next((g.aged_from_ms for g in generations if g.keys), now_ms)
    return max(0, now_ms - first) / 1000


def _milliseconds(duration: timedelta) -> float:
    return duration / timedelta(milliseconds=1)
