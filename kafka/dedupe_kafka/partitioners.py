"""The partitions that producers choose for keys, for many keys at once.

murmur2   default of the Java client and of clients compatible with it; partitioner=murmur2 of librdkafka
crc32     librdkafka's default for keys that are not empty; its partitioner=consistent
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)


class Partitioner(StrEnum):
    """The hash by which producers choose a partition."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"


def partitions_of(keys: Sequence[bytes], count: int, partitioner: Partitioner) -> NDArray[np.int64]:
    """Return the partition, out of `count`, of each key."""
    if partitioner is Partitioner.CRC32:
        return np.fromiter(map(crc32, keys), np.int64, len(keys)) % count
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


def murmur2(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return Kafka's 32-bit murmur2 hash of each key.

    Keys of the same length are hashed together, column by column.
    """
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    hashes = np.empty(len(keys), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        joined = b"".join(map(keys.__getitem__, rows.tolist()))
        hashes[rows] = _of_same_length(np.frombuffer(joined, np.uint8).reshape(len(rows), length))
    return hashes


def _of_same_length(grid: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Hash rows of shape (n, length) to (n,); numpy's arithmetic is modulo 2^32."""
    count, length = grid.shape
    whole = length // 4
    words = np.ascontiguousarray(grid[:, : 4 * whole]).view("<u4").reshape(count, whole)
    hashed = np.full(count, _SEED ^ length, np.uint32)
    for column in range(whole):
        word = words[:, column] * _M
        word ^= word >> np.uint32(24)
        hashed = hashed * _M ^ word * _M
    rest = length - 4 * whole
    for index in reversed(range(rest)):
        hashed ^= grid[:, 4 * whole + index].astype(np.uint32) << np.uint32(8 * index)
    if rest:
        hashed *= _M
    hashed ^= hashed >> np.uint32(13)
    hashed *= _M
    hashed ^= hashed >> np.uint32(15)
    return hashed
