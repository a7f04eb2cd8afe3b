"""Choose the partition of an id by jump consistent hash, a batch at a time.

The algorithm is that of Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm" (2014). If partitions
are added, an id stays where it is or moves to one of the new ones. Invariant: nothing here ever changes, because ids
that are stored lie where it has sent them.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_PARTITIONS: Final = 65536

Partitions = NDArray[np.intp]
"""The partition of each id or key of a batch: shape (n,)."""

_DIGEST_BYTES: Final = 16  # as an id has
_STEP: Final = np.uint64(2862933555777941757)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


def jump_hash(keys: NDArray[np.uint64], count: int) -> Partitions:
    """Return the bucket of each key, of `count` buckets.

    Raises ValueError if `count` is not in 1..65536.

    >>> jump_hash(np.array([0, 1, 0xDEADBEEF, 0x0DDC0FFEEBADF00D], np.uint64), 19).tolist()
    [0, 17, 16, 15]
    """
    if not 1 <= count <= MAX_PARTITIONS:
        raise ValueError(f"{count} partitions: must be 1 to {MAX_PARTITIONS}")
    buckets = np.zeros(len(keys), np.intp)
    rows = np.arange(len(keys))
    bucket = buckets
    # Each round takes the keys that jump once more: about ln(count) rounds of fewer and fewer keys.
    while rows.size:
        keys = keys * _STEP + np.uint64(1)  # wraps at 64 bits, as the paper's does
        # In this order of operations, or the doubles would round differently.
        jumps = (bucket + 1) * (float(1 << 31) / ((keys >> np.uint64(33)) + np.uint64(1)))
        goes_on = jumps < count
        rows, keys, bucket = rows[goes_on], keys[goes_on], jumps[goes_on].astype(np.intp)
        buckets[rows] = bucket
    return buckets


def partitions_of_ids(packed: bytes, count: int) -> Partitions:
    """Return the partition of each id; `packed` has 16 bytes for each.

    The contract: `first` and `second` are the halves of an id as little-endian numbers of 64 bits, `mix` is the
    finalizer of splitmix64. The id's partition is `jump_hash(mix(mix(first) ^ second), count)`, where

        mix(z):  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
                 z = (z ^ (z >> 27)) * 0x94d049bb133111eb
                 z ^ (z >> 31)

    all modulo 2**64. Both halves matter: one half of a UUID may be constant or sequential.

    Raises ValueError if `count` is not in 1..65536.
    """
    # Fixed as little-endian, then native: the same partitions on every machine.
    halves = np.frombuffer(packed, "<u8").astype(np.uint64, copy=False).reshape(-1, 2)
    return jump_hash(_mix(_mix(halves[:, 0]) ^ halves[:, 1]), count)


def partitions_of_keys(keys: Sequence[bytes], count: int) -> Partitions:
    """Return the partition of each record that has no id and goes by its key.

    It is that of the id `blake2b(key, digest_size=16)`, also for a key that is a UUID.
    """
    return partitions_of_ids(
        b"".join(blake2b(key, digest_size=_DIGEST_BYTES).digest() for key in keys), count
    )


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))
