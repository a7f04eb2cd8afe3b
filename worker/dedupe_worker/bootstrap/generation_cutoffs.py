"""Decide which ids of a partition are kept, and in which generation.

`job` calls this before it writes files. Invariant: decisions only, no I/O.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.external_sort import Entries

_BUCKETS: Final = 1 << 13
# 36.3 measured: id, owner, RocksDB's sequence number and lengths, 10 bits of filter, the index.
_BYTES_PER_ID: Final = 37


class TooManyAtOnce(ValueError):
    """More ids were seen at one time than the window holds.

    So none of them is the oldest.
    """


class TimeHistogram:
    """Counts of ids by when they were seen.

    Both times are Unix milliseconds, and included.
    """

    def __init__(self, first_ms: int, last_ms: int) -> None:
        self._width = max(1, -(-(last_ms - first_ms + 1) // _BUCKETS))
        self._first = first_ms
        self.counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)

    def add(self, entries: Entries) -> None:
        """Count each id."""
        places = (entries["position"] - self._first) // self._width
        self.counts += np.bincount(places, minlength=_BUCKETS)

    def start_ms(self, bucket: int) -> int:
        """Return the earliest time that a bucket counts."""
        return self._first + bucket * self._width


@dataclass(frozen=True, slots=True)
class GenerationCutoffs:
    """Generation i takes the ids seen from `starts_ms[i]` until the next one's start.

    Earlier ones are left out.
    """

    starts_ms: tuple[int, ...]

    def generations(self, entries: Entries) -> NDArray[np.int64]:
        """Return the generation of each id, -1 for those left out."""
        starts = np.array(self.starts_ms, np.int64)
        places: NDArray[np.int64] = np.searchsorted(starts, entries["position"], "right") - 1
        return places


def plan_cutoffs(histogram: TimeHistogram, bounds: Bounds) -> GenerationCutoffs:
    """Divide the ids into generations of about the same number of ids.

    So the window loses the same share with each. Of more ids than `bounds.max_bytes` holds, the oldest are left out.

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
        return GenerationCutoffs(())
    # The first bucket of each generation is where the count from the end passes its share.
    total = int(newer[kept[0]])
    shares = [
        total * (bounds.generations - i) / bounds.generations for i in range(bounds.generations)
    ]
    first_buckets = sorted(
        {int(kept[newer[kept] <= share][0]) for share in shares if (newer[kept] <= share).any()}
    )
    return GenerationCutoffs(tuple(histogram.start_ms(bucket) for bucket in first_buckets))
