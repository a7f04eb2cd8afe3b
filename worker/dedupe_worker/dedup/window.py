"""The window of remembered ids: the store and the ids of the open transaction.

The loop and the catch-up use it. Invariant: an id is written to the store only by `commit`, so only after its record
is in the output.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedupe_ids.batch import Mask
from dedupe_ids.extract import ID_BYTES
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.dedup.ageing_clock import AgeingClock
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.bloom_filter import Hashes, hash_ids
from dedupe_worker.store.metadata import NO_RECORDS, LastRecords
from dedupe_worker.store.offset_ranges import encode_ranges
from dedupe_worker.values import OWNER, Values, without_owner

_ID: Final = np.dtype(f"V{ID_BYTES}")

Known = dict[bytes, bytes]


def find_repeats(
    ids: Sequence[bytes], values: Sequence[bytes], suspects: Iterable[int], known: Known
) -> dict[int, bytes]:
    """Return the suspect rows that repeat an id, with the value of what each repeats.

    `ids` and `values` are the batch in order, `known` the ids seen before it with their values. `suspects` are the
    rows, in order, whose id is in `known` or more than once in the batch; other rows may be among them.
    """
    first: Known = {}
    repeats: dict[int, bytes] = {}
    for row in suspects:
        packed_id = ids[row]
        value = known.get(packed_id) or first.get(packed_id)
        if value is None:
            first[packed_id] = values[row]
        else:
            repeats[row] = value
    return repeats


@dataclass(frozen=True, slots=True)
class _Admitted:
    """The ids that one batch has added, in the order of their `hashes`, which ascend."""

    ids: NDArray[np.void]
    values: Values
    hashes: Hashes

    def find(self, hashes: Hashes) -> Known:
        """Return each id here that has one of `hashes`, which ascend, with its value."""
        left = np.searchsorted(self.hashes, hashes)
        rows = left[self.hashes.take(left, mode="clip") == hashes]
        known: Known = {}
        while len(rows):
            known.update(zip(self.ids[rows].tolist(), self.values[rows].tolist(), strict=True))
            # Hardly ever ids share a hash. Then they are neighbours.
            rows = rows[rows + 1 < len(self.hashes)]
            rows = rows[self.hashes[rows] == self.hashes[rows + 1]] + 1
        return known


class Window:
    """The ids of one partition: `admit` batches, then `commit` or `abort` their ids.

    A batch stays in arrays until it is written: only the few ids that may be repeats become Python objects. `values`
    is the dtype of an id's value: its owner, or a wider layout that begins with it. Ids age by `ageing`; without it by
    the times that are given. `on_dropped` is called with the number of generations that were dropped. `observes`: the
    output has repeats as well (mode Observe), and the first record of an id is the original.
    """

    def __init__(
        self,
        store: IdStore,
        values: np.dtype[np.void] = OWNER,
        *,
        ageing: AgeingClock | None = None,
        on_dropped: Callable[[int], None] | None = None,
        observes: bool = False,
    ) -> None:
        self.store = store
        self.ageing = ageing
        self._on_dropped = on_dropped
        self._observes = observes
        self._value_dtype = values
        self._open: list[_Admitted] = []
        self._replaced = False

    @property
    def forgotten_ms(self) -> int:
        """Return the newest timestamp of dropped ids, Unix milliseconds; or 0."""
        return self.store.forgotten_ms

    def admit(self, packed: bytes, values: Values | Sequence[bytes]) -> dict[int, bytes]:
        """Add a batch of ids (16 bytes each, joined) with their values, in order.

        Return the rows that repeat an id, with the value of the record each repeats; the others are new, and
        remembered from now on.
        """
        ids = np.frombuffer(packed, _ID)
        values = np.asarray(values, self._value_dtype)
        hashes = hash_ids(packed)
        # In order, equal hashes are neighbours, and the filters are read sequentially.
        order = np.argsort(hashes)
        ordered = hashes[order]
        suspected = self.store.suspects(ordered)
        same = ordered[1:] == ordered[:-1]
        suspected[1:] |= same
        suspected[:-1] |= same
        repeats = {}
        if suspected.any():
            repeats = self._repeats(ids, values, order[suspected], ordered[suspected])
        if repeats:
            new = np.ones(len(ids), np.bool_)
            new[list(repeats)] = False
            order = order[new[order]]
            ordered = hashes[order]
        if len(order):
            self.store.prepare(ordered)
            self._open.append(_Admitted(ids[order], values[order], ordered))
        return repeats

    def learn(
        self,
        packed: bytes,
        values: Values,
        replaced: dict[bytes, bytes] | None = None,
        own_rows: Mask | None = None,
    ) -> None:
        """Add ids of the output, in its order, each with the value of its newest record.

        If the output has several records of an id, the id was forgotten before each but the first: the newest is the
        original, and it is remembered from then on, as in a store that forgot it. A record that is read again with its
        owner unknown gets no other value.

        `replaced` is for records that the store may have: it keeps, from call to call, the values that others' records
        replace, so that a record behind them gets its owner back. `own_rows` are those that this window had already:
        an id that it has forgotten since stays forgotten.
        """
        ids: NDArray[np.void] = np.frombuffer(packed, _ID)
        if own_rows is not None and own_rows.any():
            kept = np.flatnonzero(~self._forgotten(ids, own_rows))
            ids, values, own_rows = ids[kept], values[kept], own_rows[kept]
            packed = ids.tobytes()
        repeats = self.admit(packed, values)
        changed: dict[bytes, bytes] = {}
        for row, value in () if self._observes else repeats.items():
            one, own = ids[row].tobytes(), values[row].tobytes()
            known = changed.get(one, value)
            if own in {known, without_owner(known)}:
                if own_rows is not None and own_rows[row]:
                    continue  # it is as new as its record
                own = known
            elif replaced is not None:
                before = replaced.setdefault(one, known)
                own = before if own == without_owner(before) else own
            changed[one] = own
        if changed:
            joined = b"".join(changed)
            hashes = hash_ids(joined)
            order = np.argsort(hashes)
            new = np.frombuffer(b"".join(changed.values()), self._value_dtype)
            self.store.prepare(hashes[order])  # an older generation may have the id so far
            self._open.append(
                _Admitted(np.frombuffer(joined, _ID)[order], new[order], hashes[order])
            )
            self._replaced = True

    def find(self, packed: bytes) -> dict[int, bytes]:
        """Return the rows whose id is remembered, with its value; add none."""
        ids = np.frombuffer(packed, _ID)
        hashes = hash_ids(packed)
        order = np.argsort(hashes)
        known = self._known(ids[order], hashes[order])
        return {row: known[each] for row, each in enumerate(ids.tolist()) if each in known}

    def commit(
        self,
        *,
        output_position: int,
        input_offset: int,
        seen_ms: int,
        newest_ms: int | None = None,
        last: LastRecords = NO_RECORDS,
        own: Sequence[OffsetRange] = (),
    ) -> None:
        """Write the ids that were added to the store, sorted, which costs half.

        `own` are ranges of the output whose ids the window has, as in `learn`.
        """
        ids = np.concatenate([np.empty(0, _ID), *(batch.ids for batch in self._open)])
        values = np.concatenate(
            [np.empty(0, self._value_dtype), *(batch.values for batch in self._open)]
        )
        # Of two values of an id the later one is written last, and stays; the stable sort takes longer.
        order = np.argsort(ids.view(">u8")[::2].astype("<u8"), stable=self._replaced)
        self.store.write(
            ids[order].tolist(),
            values[order].tolist(),
            output_position=output_position,
            input_offset=input_offset,
            seen_ms=seen_ms,
            newest_ms=newest_ms,
            aged_ms=self.ageing.latest_ms if self.ageing else None,
            last=last,
            own_output=encode_ranges(own, output_position),
        )
        self.abort()

    def age(self, now_ms: int) -> None:
        """Seal and drop generations as the bounds require, see `IdStore.age`."""
        dropped = self.store.age(self.age_ms(now_ms))
        if dropped and self._on_dropped:
            self._on_dropped(dropped)

    def age_ms(self, now_ms: int) -> int:
        """Return the time by which ids age, if the time is `now_ms`."""
        return self.ageing.now_ms if self.ageing else now_ms

    def abort(self) -> None:
        """Forget the ids that were not committed.

        The Bloom filter may still contain them, which only costs lookups.
        """
        self._open.clear()
        self._replaced = False

    def _forgotten(self, ids: NDArray[np.void], own: Mask) -> Mask:
        """Return which of the `own` rows have an id that is not remembered.

        Not those whose id another row brings back.
        """
        hashes = hash_ids(ids.tobytes())
        forgotten = own & ~np.isin(hashes, hashes[~own])
        rows = np.flatnonzero(forgotten)
        forgotten[rows[list(self.find(ids[rows].tobytes()))]] = False
        return forgotten

    def _repeats(
        self, ids: NDArray[np.void], values: Values, rows: NDArray[np.intp], hashes: Hashes
    ) -> dict[int, bytes]:
        """Return which of `rows` repeat an id, with the value of the record each repeats.

        `rows` are in the order of their `hashes`.
        """
        known = self._known(ids[rows], hashes)
        rows = np.sort(rows)
        found = find_repeats(ids[rows].tolist(), values[rows].tolist(), range(len(rows)), known)
        return dict(zip(rows[list(found)].tolist(), found.values(), strict=True))

    def _known(self, ids: NDArray[np.void], hashes: Hashes) -> Known:
        """Look up ids, ordered by `hashes`, in the store and the open transaction."""
        known: Known = {}
        for batch in self._open:
            known.update(batch.find(hashes))
        # Only the others: a lookup in the store takes several times as long.
        others = np.array([each not in known for each in ids.tolist()], np.bool_)
        return {**self.store.lookup(ids[others].tolist(), hashes[others]), **known}
