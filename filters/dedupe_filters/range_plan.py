"""Which offsets of a partition a reader has to read, by what filters claim of it. Values in, values out.

An offset is skipped if at least one claim covers it and no claim that covers it says that the range may match. One
claim that rules it out would do, as each stands by itself (see record.py); all are heard, so that one that has become
untrue can't hide records from one that is true, as after an unclean leader election, when other records take
offsets that were taken before.

An offset that no claim covers is read: of before there were filters, not yet indexed, lost. But not if it is sure to
be a transaction's marker, which holds no record: exactly one offset between two ranges that are transactions of their
own, or between one and the last stable offset. The marker of a committed transaction follows its last record
and precedes whatever the same producer writes next, and there is no place for anything beside it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Span(NamedTuple):
    """Offsets from `start` to before `end`."""

    start: int
    end: int

    @property
    def offsets(self) -> int:
        """How many offsets there are, of which each may hold a record."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Claims:
    """What filters say of one partition, one entry each, in any order.

    `starts` and `ends` (not included) of their ranges, whether each is a transaction of its own, and whether it may
    hold what is wanted.
    """

    starts: Offsets
    ends: Offsets
    transactions: Flags
    matches: Flags

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, bool, bool]]) -> "Claims":
        """Make claims of rows: start, end, transaction, match."""
        table = np.array(list(rows), np.int64).reshape(-1, 4)
        return cls(
            table[:, 0], table[:, 1], table[:, 2].astype(np.bool_), table[:, 3].astype(np.bool_)
        )

    @classmethod
    def joined(cls, parts: "Sequence[Claims]") -> "Claims":
        """Put several together."""
        if not parts:
            return cls.of([])
        return cls(
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.transactions for part in parts]),
            np.concatenate([part.matches for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def within(self, span: Span) -> "Claims":
        """Those that say something of a span."""
        return self._where((self.ends > span.start) & (self.starts < span.end))

    def _where(self, chosen: Flags) -> "Claims":
        return Claims(
            self.starts[chosen], self.ends[chosen], self.transactions[chosen], self.matches[chosen]
        )


class Plan(NamedTuple):
    """What to read of a partition, in order and with gaps between, and how many filters ruled their range out."""

    spans: tuple[Span, ...]
    chunks: int
    chunks_skipped: int

    @property
    def offsets(self) -> int:
        """How many offsets are to be read."""
        return sum(span.offsets for span in self.spans)


def plan(wanted: Span, claims: Claims, *, stable_end: int, gap_offsets: int = 0) -> Plan:
    """Return what to read of the offsets `wanted`.

    `stable_end` is the partition's last stable offset, asked for before the claims were read. Spans with at
    most `gap_offsets` between them are read as one, with what is between.
    """
    if wanted.offsets <= 0:
        return Plan((), 0, 0)
    known = claims.within(wanted)
    bounds, unread = _unread(wanted, Claims.joined([known, _markers(claims, stable_end)]))
    starts, ends = bounds[:-1][~unread], bounds[1:][~unread]
    apart = starts[1:] - ends[:-1] > max(0, gap_offsets)
    first = np.concatenate([[True], apart])[: len(starts)]
    last = np.concatenate([apart, [True]])[: len(starts)]
    spans = zip(starts[first].tolist(), ends[last].tolist(), strict=True)
    skipped = len(known) - int(known.matches.sum())
    return Plan(tuple(Span(start, end) for start, end in spans), len(known), skipped)


def uncovered(wanted: Span, claims: Claims, *, stable_end: int) -> tuple[Span, ...]:
    """Return the offsets of which no claim speaks, without the markers of transactions."""
    nothing_matches = Claims(
        claims.starts, claims.ends, claims.transactions, np.zeros(len(claims), np.bool_)
    )
    return plan(wanted, nothing_matches, stable_end=stable_end).spans


def _markers(claims: Claims, stable_end: int) -> Claims:
    """The offsets that are sure to be transaction markers, as claims that they match nothing."""
    ends = claims.ends[claims.transactions]
    followers = claims.starts[claims.transactions]
    markers = ends[np.isin(ends + 1, followers) | (ends + 1 == stable_end)]
    none = np.zeros(len(markers), np.bool_)
    return Claims(markers, markers + 1, none, none)


def _unread(wanted: Span, claims: Claims) -> tuple[Offsets, Flags]:
    """Cut the wanted offsets where claims begin and end; return the cuts, and of each piece whether it is skipped."""
    cuts = np.concatenate([claims.starts, claims.ends, [wanted.start, wanted.end]])
    bounds = np.unique(np.clip(cuts, wanted.start, wanted.end))
    pieces = bounds[:-1]
    covered = _open(claims.starts, claims.ends, pieces)
    matching = _open(claims.starts[claims.matches], claims.ends[claims.matches], pieces)
    return bounds, (covered > 0) & (matching == 0)


def _open(starts: Offsets, ends: Offsets, at: Offsets) -> NDArray[np.intp]:
    """How many of the ranges each offset is in."""
    begun = np.searchsorted(np.sort(starts), at, "right")
    return begun - np.searchsorted(np.sort(ends), at, "right")
