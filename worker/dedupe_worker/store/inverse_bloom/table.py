"""The slots of a table in memory: each holds one whole id and its value.

    ids      shape (slots, 2), 16 bytes a slot
    values   shape (slots,), `value_bytes` a slot

An id has one slot: the product of its 64-bit hash with the number of slots, divided by 2^64, so any number of slots
will do, and hashes in order are slots in order. What is put into a slot takes the place of what was there. An id is
known only if its slot holds all of its 16 bytes. Invariant: an empty slot knows no id: it holds an id
of another slot. All zeros belong to slot 0, so they mark every other slot as empty, and memory is taken only when it is
written to; slot 0 is marked by an id of another slot.

A whole batch is done at once in numpy. Sources: Jeff Hodges, "The Opposite of a Bloom Filter" (2012); Lemire, "Fast
random integer generation in an interval" (2019).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedupe_ids.extract import ID_BYTES
from dedupe_worker.store.bloom_filter import Hashes, hash_ids
from dedupe_worker.store.inverse_bloom.sizing import LEAST_SLOTS, MOST_SLOTS
from dedupe_worker.values import OWNER_BYTES, UNKNOWN_OWNER

ID: Final = np.dtype(f"V{ID_BYTES}")

Ids = NDArray[np.void]
Values = NDArray[np.void]
Mask = NDArray[np.bool_]
Slots = NDArray[np.int64]

_HALF: Final = np.uint64(32)
_AT_ONCE: Final = 1 << 16
_LOW: Final = np.uint64(0xFFFFFFFF)
_EMPTY: Final = bytes(ID_BYTES)


class Found(NamedTuple):
    """The result for n ids: `known` of shape (n,), and the values of the known ids."""

    known: Mask
    values: Values


class Table:
    """`slots` of an id and `value_bytes` each.

    Ids are given with shape (n,), dtype ID; their hashes may be given with them, where they are known. Raises
    ValueError for a number of slots out of bounds.
    """

    def __init__(self, slots: int, value_bytes: int) -> None:
        if not LEAST_SLOTS <= slots <= MOST_SLOTS:
            raise ValueError(f"{slots} slots: a table has from {LEAST_SLOTS} to {MOST_SLOTS}")
        self.slots = slots
        self.value_bytes = value_bytes
        self.ids = np.zeros((slots, 2), np.uint64)
        self.values: Values = np.zeros(slots, f"V{value_bytes}")
        self._whole_ids: Ids = self.ids.view(ID).reshape(-1)
        self._first_empty = _elsewhere(slots)
        self._whole_ids[0] = np.frombuffer(self._first_empty, ID)[0]

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory once every slot is in use."""
        return self.ids.nbytes + self.values.nbytes

    def slots_of(self, hashes: Hashes) -> Slots:
        """Return the slot of each hash."""
        return _slots_of(hashes, self.slots)

    def may_know(self, hashes: Hashes) -> Mask:
        """Return for each hash False if its id is certainly not in the table."""
        held = self.ids.take(self.slots_of(hashes), axis=0, mode="clip")
        same: Mask = hash_ids(held.tobytes()) == hashes
        return same

    def lookup(self, ids: Ids, hashes: Hashes | None = None) -> Found:
        """Return which ids are in the table, and their values."""
        slots = self.slots_of(hash_ids(ids.tobytes()) if hashes is None else hashes)
        known = self._hold(slots, ids)
        return Found(known, self.values[slots[known]])

    def put(self, ids: Ids, values: Values, hashes: Hashes | None = None) -> Slots:
        """Put ids into their slots, in order.

        A later row takes the place of an earlier one. Returns the slots.
        """
        slots = self.slots_of(hash_ids(ids.tobytes()) if hashes is None else hashes)
        # numpy does not say in which order it assigns, so no slot may be given twice.
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
        used: Slots = ordered[last]
        self._assign(used, ids[order[last]], values[order[last]])
        return used

    def forget_owners(self, report: Callable[[], None]) -> None:
        """Make the owner of every id unknown; what follows it in a value stays.

        `report` is called before each piece.
        """
        owners = self.values.view(np.uint8).reshape(self.slots, self.value_bytes)[:, :OWNER_BYTES]
        unknown = np.frombuffer(UNKNOWN_OWNER, np.uint8)
        for first in range(0, self.slots, _AT_ONCE):
            report()
            some = slice(first, first + _AT_ONCE)
            owners[some][self.ids[some].any(axis=1)] = unknown  # an empty slot takes no memory

    def remove(self, ids: Ids) -> Slots:
        """Empty the slots of ids that are in the table; returns these slots."""
        slots = self.slots_of(hash_ids(ids.tobytes()))
        held = np.unique(slots[self._hold(slots, ids)])
        self._whole_ids[held] = np.frombuffer(_EMPTY, ID)
        if len(held) and held[0] == 0:
            self._whole_ids[0] = np.frombuffer(self._first_empty, ID)[0]
        return held

    def _hold(self, slots: Slots, ids: Ids) -> Mask:
        held = self.ids.take(slots, axis=0, mode="clip")
        same = held == ids.view(np.uint64).reshape(-1, 2)
        both: Mask = same[:, 0] & same[:, 1]
        return both

    def _assign(self, slots: Slots, ids: Ids, values: Values) -> None:
        self._whole_ids[slots] = ids
        self.values[slots] = values


def _slots_of(hashes: Hashes, slots: int) -> Slots:
    """Return the upper 64 of the 128 bits of hash times slots, by halves.

    Exact for up to 2^32 slots.
    """
    number = np.uint64(slots)
    index: Hashes = (hashes >> _HALF) * number + ((hashes & _LOW) * number >> _HALF) >> _HALF
    return index.view(np.int64)  # numpy would convert unsigned indices


def _elsewhere(slots: int) -> bytes:
    """Return an id whose slot is not 0."""
    number = 1
    while not _slots_of(hash_ids(candidate := number.to_bytes(ID_BYTES, "little")), slots)[0]:
        number += 1
    return candidate
