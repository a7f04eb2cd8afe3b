"""Partition of an id or a key, by jump consistent hash.

From P to P' partitions, (P' - P) / P' of the ids move, and all of them into new partitions (Lamping and Veach 2014, "A
Fast, Minimal Memory, Consistent Hash Algorithm"). Routers, and the bootstrap of stores, call it. Invariant: the
functions never change, because stores hold ids by their partition.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedupe_ids.batch import Rows
from dedupe_ids.extract import ID_BYTES

MOST_PARTITIONS: Final = 1 << 16

Keys = NDArray[np.uint64]
"""Keys to hash: shape (n,)."""

_STEP: Final = np.uint64(2862933555777941757)
_ONE: Final = np.uint64(1)
_SHIFT: Final = np.uint64(33)
# Of splitmix64's finalizer.
_MIX: Final = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT: Final = np.uint64(31)


def jump_hash(keys: Keys, count: int) -> Rows:
    """Return the partition of each key, from 0 to count - 1: shape (n,).

    Raises ValueError for a count that is not from 1 to 65,536.

    >>> jump_hash(np.array([0, 1, 0xDEADBEEF, 0x0DDC0FFEEBADF00D], np.uint64), 19).tolist()
    [0, 17, 16, 15]
    """
    if not 1 <= count <= MOST_PARTITIONS:
        raise ValueError(f"{count} partitions: allowed are 1 to {MOST_PARTITIONS}")
    found = np.zeros(len(keys), np.intp)
    open_rows = np.arange(len(keys))
    state = keys.astype(np.uint64)
    jump = np.zeros(len(keys), np.int64)
    # A jump more than halves what is left, on average: about ln(count) rounds.
    while open_rows.size:
        found[open_rows] = jump
        state = state * _STEP + _ONE
        jump = ((jump + 1) * ((1 << 31) / ((state >> _SHIFT) + _ONE).astype(np.float64))).astype(
            np.int64
        )
        goes_on = jump < count
        open_rows, state, jump = open_rows[goes_on], state[goes_on], jump[goes_on]
    return found


def partitions_of_ids(packed: bytes, count: int) -> Rows:
    """Return the partition of each id: shape (n,). `packed` has 16 bytes for each.

    The key of an id is mix(mix(low) ^ high): low and high are its first and last 8 bytes in little-endian order, and
    mix is the finalizer of splitmix64. So each bit of the id counts, also where ids are ascending numbers or times.
    Raises ValueError as `jump_hash` does.
    """
    halves = np.frombuffer(packed, "<u8").reshape(-1, 2)
    return jump_hash(_mixed(_mixed(halves[:, 0]) ^ halves[:, 1]), count)


def partitions_of_keys(keys: Sequence[bytes], count: int) -> Rows:
    """Return the partition of each key: that of its 128-bit BLAKE2b hash as an id."""
    packed = b"".join(blake2b(key, digest_size=ID_BYTES).digest() for key in keys)
    return partitions_of_ids(packed, count)


def _mixed(keys: Keys) -> Keys:
    for shift, factor in _MIX:
        keys = (keys ^ (keys >> shift)) * factor
    return keys ^ (keys >> _LAST_SHIFT)
