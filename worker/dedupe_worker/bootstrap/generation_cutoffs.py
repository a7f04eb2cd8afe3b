"""Which ids of a partition are remembered, and in which generation: decisions only, no I/O."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedupe_worker.bootstrap.rows import Rows
from dedupe_worker.store.ageing import Bounds

_BUCKETS: Final = 1 << 13
# 36.3 measured: id, owner, RocksDB's sequence number and lengths, 10 bits of filter, the index.
_BYTES_PER_ID: Final = 37


class TooManyAtOnce(ValueError):
    """More ids of one time than the window holds: none of them is older than the others."""


class TimeHistogram:
    """Counts ids by when they were seen, between two times (Unix milliseconds, both included)."""

    def __init__(self, first_ms: int, last_ms: int) -> None:
        self._width = max(1, -(-(last_ms - first_ms + 1) // _BUCKETS))
        self._first = first_ms
        self.counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)

    def add(self, rows: Rows) -> None:
        """Count each id."""
        places = (rows[2].astype(np.int64) - self._first) // self._width
        self.counts += np.bincount(places, minlength=_BUCKETS)

    def start_ms(self, bucket: int) -> int:
        """The earliest time counted in a bucket."""
        return self._first + bucket * self._width


@dataclass(frozen=True, slots=True)
class Cuts:
    """Generation i takes the ids seen from `starts_ms[i]` until the next one's start; earlier ones are left out."""

    starts_ms: tuple[int, ...]

    def generations(self, rows: Rows) -> NDArray[np.int64]:
        """The generation of each id, -1 for those left out."""
        starts = np.array(self.starts_ms, np.uint64)
        places: NDArray[np.int64] = np.searchsorted(starts, rows[2], "right") - 1
        return places


def plan_cuts(histogram: TimeHistogram, bounds: Bounds) -> Cuts:
    """Generations of about as many ids each, so that the window gives up a like share with each; of what is too
    much for `bounds.max_bytes`, the oldest is left out.

    Raises TooManyAtOnce.
    """
    room = bounds.max_bytes // _BYTES_PER_ID
    newer = np.cumsum(histogram.counts[::-1])[::-1]  # ids in this bucket and all after it
    kept = np.flatnonzero((histogram.counts > 0) & (newer <= room))
    if not len(kept):
        if newer[0]:
            raise TooManyAtOnce(
                f"{newer[0]:,} ids were seen at much the same time, and {room:,} fit"
            )
        return Cuts(())
    # The first bucket of each generation is where the count from the end passes its share.
    total = int(newer[kept[0]])
    shares = [
        total * (bounds.generations - i) / bounds.generations for i in range(bounds.generations)
    ]
    first_buckets = sorted(
        {int(kept[newer[kept] <= share][0]) for share in shares if (newer[kept] <= share).any()}
    )
    return Cuts(tuple(histogram.start_ms(bucket) for bucket in first_buckets))
