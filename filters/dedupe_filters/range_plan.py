"""Choose the offsets of a partition to read, from the claims of its filters.

Values in, values out; the planner and the backfill call it.

An offset is skipped if at least one claim covers it and no claim that covers it may match. One claim that rules the
offset out would be enough, as each claim is independent (see wire_format.py). All claims count, so that a claim that
became false cannot hide the records of a true claim. This happens after an unclean leader election, when other records
get offsets that were already used.

An offset without a claim is read: its filter is lost, or not yet written. The exception is an offset that is certainly
a transaction marker, which holds no record: exactly one offset between the ranges of two transactions of one producer,
or between a transaction's range and the last stable offset. The marker of a committed transaction follows its last
record and precedes both what the same producer writes next and the last stable offset, so no record fits between them.
Between transactions of two producers it can be the record of a third, and both markers come later.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedupe_kafka.offsets import OffsetRange

Offsets = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_TRANSACTION: Final = 0
UNKNOWN_PRODUCER: Final = -1


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of one partition's filters, one row each, in any order.

    `starts` and `ends` (not included) are the ranges. `producers` has a positive number for the producer of each range
    that is one whole transaction, or UNKNOWN_PRODUCER, and NO_TRANSACTION for other ranges. `matches` marks the ranges
    that may hold a wanted value. A claim takes 25 bytes.
    """

    starts: Offsets
    ends: Offsets
    producers: Offsets
    matches: Flags

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, bool]]) -> "Claims":
        """Build claims from rows of start, end, producer, match."""
        # Copies: a view of a column would keep the whole table in memory.
        starts, ends, producers, matches = np.array(list(rows), np.int64).reshape(-1, 4).T
        return cls(starts.copy(), ends.copy(), producers.copy(), matches.astype(np.bool_))

    @classmethod
    def joined(cls, parts: "Sequence[Claims]") -> "Claims":
        """Concatenate several sets of claims."""
        if not parts:
            return cls.of([])
        return cls(
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.producers for part in parts]),
            np.concatenate([part.matches for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def within(self, offsets: OffsetRange) -> "Claims":
        """Return the claims that overlap a range."""
        return self._select((self.ends > offsets.low) & (self.starts < offsets.end))

    def _select(self, chosen: Flags) -> "Claims":
        return Claims(
            self.starts[chosen], self.ends[chosen], self.producers[chosen], self.matches[chosen]
        )


class Plan(NamedTuple):
    """The ranges of a partition to read, in order and with gaps between them.

    `chunks` counts the filters that overlap the request, `chunks_skipped` those of them that ruled their range out.
    """

    ranges: tuple[OffsetRange, ...]
    chunks: int
    chunks_skipped: int

    @property
    def offset_count(self) -> int:
        """Return the number of offsets to read."""
        return sum(offsets.count for offsets in self.ranges)


def plan(wanted: OffsetRange, claims: Claims, *, stable_end: int, gap_offsets: int = 0) -> Plan:
    """Return the part of the range `wanted` that must be read.

    `stable_end` is the partition's last stable offset, queried before the claims were read. Ranges with at most
    `gap_offsets` between them are read as one range, including the gap.
    """
    if wanted.count <= 0:
        return Plan((), 0, 0)
    known = claims.within(wanted)
    bounds, is_skipped = _skipped(wanted, Claims.joined([known, _markers(claims, stable_end)]))
    starts, ends = bounds[:-1][~is_skipped], bounds[1:][~is_skipped]
    apart = starts[1:] - ends[:-1] > max(0, gap_offsets)
    first = np.concatenate([[True], apart])[: len(starts)]
    last = np.concatenate([apart, [True]])[: len(starts)]
    ranges = zip(starts[first].tolist(), ends[last].tolist(), strict=True)
    skipped = len(known) - int(known.matches.sum())
    return Plan(tuple(OffsetRange(start, end) for start, end in ranges), len(known), skipped)


def uncovered(wanted: OffsetRange, claims: Claims, *, stable_end: int) -> tuple[OffsetRange, ...]:
    """Return the offsets that no claim covers, without transaction markers."""
    nothing_matches = Claims(
        claims.starts, claims.ends, claims.producers, np.zeros(len(claims), np.bool_)
    )
    return plan(wanted, nothing_matches, stable_end=stable_end).ranges


def _markers(claims: Claims, stable_end: int) -> Claims:
    """Return claims that certain transaction markers match nothing."""
    is_transaction = claims.producers != NO_TRANSACTION
    ends, producers = claims.ends[is_transaction], claims.producers[is_transaction]
    order = np.argsort(claims.starts[is_transaction], kind="stable")
    starts = claims.starts[is_transaction][order]
    # Of several claims with the same start only the first is compared: a marker that is read does no harm.
    following = np.searchsorted(starts, ends + 1)
    exists = following < len(starts)
    following[~exists] = 0
    is_next = exists & (starts[following] == ends + 1) if len(starts) else exists
    is_same = is_next & (producers == producers[order][following]) & (producers > 0)
    markers = ends[is_same | (ends + 1 == stable_end)]
    nothing = np.zeros(len(markers), np.int64)
    return Claims(markers, markers + 1, nothing, nothing.astype(np.bool_))


def _skipped(wanted: OffsetRange, claims: Claims) -> tuple[Offsets, Flags]:
    """Cut the wanted range at the bounds of claims.

    Returns the cuts, and for each piece between two cuts whether it is skipped.
    """
    cuts = np.concatenate([claims.starts, claims.ends, [wanted.low, wanted.end]])
    bounds = np.unique(np.clip(cuts, wanted.low, wanted.end))
    pieces = bounds[:-1]
    covered = _open(claims.starts, claims.ends, pieces)
    matching = _open(claims.starts[claims.matches], claims.ends[claims.matches], pieces)
    return bounds, (covered > 0) & (matching == 0)


def _open(starts: Offsets, ends: Offsets, at: Offsets) -> NDArray[np.intp]:
    """Count for each offset the ranges that contain it."""
    begun = np.searchsorted(np.sort(starts), at, "right")
    return begun - np.searchsorted(np.sort(ends), at, "right")
