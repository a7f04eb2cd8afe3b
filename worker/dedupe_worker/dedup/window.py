"""The window of remembered ids as the loop sees it: the store, and the ids of the open transaction ahead of it."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedupe_crds.status.worker import WindowStatus
from dedupe_ids.extract import ID_BYTES
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.bloom_filter import Hashes, hash_ids
from dedupe_worker.values import OWNER, Owners

_ID: Final = np.dtype(f"V{ID_BYTES}")

Known = dict[bytes, bytes]


def find_repeats(
    ids: Sequence[bytes], owners: Sequence[bytes], suspects: Iterable[int], known: Known
) -> dict[int, bytes]:
    """Which of the suspect rows repeat an id, and the owner of what each repeats.

    `ids` and `owners` are the batch in order, `known` the ids seen before it with their owners. `suspects` are the
    rows, in order, whose id is in `known` or stands more than once in the batch; others may be among them.
    """
    first: Known = {}
    repeats: dict[int, bytes] = {}
    for row in suspects:
        one = ids[row]
        owner = known.get(one) or first.get(one)
        if owner is None:
            first[one] = owners[row]
        else:
            repeats[row] = owner
    return repeats


@dataclass(frozen=True, slots=True)
class _Admitted:
    """What one batch has added: `ids` and `owners` in any order, `hashes` those of `ids`, ascending."""

    ids: NDArray[np.void]
    owners: Owners
    hashes: Hashes

    def owners_of(self, hashes: Hashes) -> Known:
        """Every id here that has one of `hashes`, which are ascending, with its owner."""
        left = np.searchsorted(self.hashes, hashes)
        here = self.hashes.take(left, mode="clip") == hashes
        known: Known = {}
        if here.any():
            right = np.searchsorted(self.hashes, hashes[here], "right")
            for start, end in zip(left[here].tolist(), right.tolist(), strict=True):
                ids, owners = self.ids[start:end].tolist(), self.owners[start:end].tolist()
                known.update(zip(ids, owners, strict=True))
        return known


class Window:
    """`admit` batches, then `commit` or `abort` what they added since the last time.

    A batch stays in arrays until it is written: only the few ids that may be repeats become Python objects. `values`
    is the type of what is remembered of each id: its owner, or a wider layout that begins with it.
    """

    def __init__(self, store: IdStore, values: np.dtype[np.void] = OWNER) -> None:
        self.store = store
        self._values = values
        self._open: list[_Admitted] = []

    def admit(self, packed: bytes, owners: Owners | Sequence[bytes]) -> dict[int, bytes]:
        """Take in a batch of ids (16 bytes each, joined) with their owners, in order.

        Returns the rows that repeat an id, with the owner of what each repeats; the others are new and
        remembered from now on.
        """
        ids = np.frombuffer(packed, _ID)
        owners = np.asarray(owners, self._values)
        hashes = hash_ids(packed)
        # In order, equal ones are neighbours, and the filters are read from one end to the other.
        order = np.argsort(hashes)
        ordered = hashes[order]
        suspected = self.store.suspects(ordered)
        same = ordered[1:] == ordered[:-1]
        suspected[1:] |= same
        suspected[:-1] |= same
        repeats = {}
        if suspected.any():
            repeats = self._repeats(ids, owners, order[suspected], ordered[suspected])
        if repeats:
            new = np.ones(len(ids), np.bool_)
            new[list(repeats)] = False
            order = order[new[order]]
            ordered = hashes[order]
        if len(order):
            self.store.prepare(ordered)
            self._open.append(_Admitted(ids[order], owners[order], ordered))
        return repeats

    def find(self, packed: bytes) -> dict[int, bytes]:
        """The rows of a batch of ids that are remembered, with the owner of each; none is admitted."""
        ids = np.frombuffer(packed, _ID)
        hashes = hash_ids(packed)
        order = np.argsort(hashes)
        known = self._known(ids[order], hashes[order])
        return {row: known[one] for row, one in enumerate(ids.tolist()) if one in known}

    def commit(
        self,
        *,
        output_position: int,
        input_offset: int,
        seen_ms: int,
        newest_ms: int | None = None,
    ) -> None:
        """Write what was admitted to the store, sorted: sorted inserts cost half of unsorted ones."""
        ids = np.concatenate([np.empty(0, _ID), *(batch.ids for batch in self._open)])
        owners = np.concatenate(
            [np.empty(0, self._values), *(batch.owners for batch in self._open)]
        )
        order = np.argsort(ids.view(">u8")[::2].astype("<u8"))
        self.store.write(
            ids[order].tolist(),
            owners[order].tolist(),
            output_position=output_position,
            input_offset=input_offset,
            seen_ms=seen_ms,
            newest_ms=newest_ms,
        )
        self._open.clear()

    def abort(self) -> None:
        """Forget what was admitted and not committed; the prefilter may still suspect it, which does no harm."""
        self._open.clear()

    def _repeats(
        self, ids: NDArray[np.void], owners: Owners, rows: NDArray[np.intp], hashes: Hashes
    ) -> dict[int, bytes]:
        """Of `rows`, ordered by their `hashes`, those that repeat an id, with the owner of what each repeats."""
        known = self._known(ids[rows], hashes)
        rows = np.sort(rows)
        found = find_repeats(ids[rows].tolist(), owners[rows].tolist(), range(len(rows)), known)
        return {int(rows[at]): owner for at, owner in found.items()}

    def _known(self, ids: NDArray[np.void], hashes: Hashes) -> Known:
        """What is known of ids, ordered by their `hashes`, in the store and in the open transaction."""
        known = self.store.lookup(ids.tolist(), hashes)
        for batch in self._open:
            known.update(batch.owners_of(hashes))
        return known


def window_status(store: IdStore, alert_below: timedelta) -> WindowStatus:
    """What a store remembers now, as it is told. A window that is still filling is healthy, however short."""
    generations = store.generations()
    seconds = store.window_seconds(int(time.time() * 1000))
    truncated = bool(store.stamp and store.stamp.truncated)
    return WindowStatus(
        seconds=seconds,
        bytes=sum(g.size_bytes for g in generations),
        keys=sum(g.keys for g in generations),
        generations=len(generations),
        truncated=truncated,
        healthy=not truncated or seconds >= alert_below.total_seconds(),
    )
