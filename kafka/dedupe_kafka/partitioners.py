"""The partitions that producers choose for keys, for many keys at once.

murmur2   default of the Java client and of clients compatible with it; partitioner=murmur2 of librdkafka
crc32     librdkafka's default for keys that are not empty; its partitioner=consistent
fnv1a     partitioner=fnv1a of librdkafka; the default of Sarama
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = np.uint32(0x01000193)


class Partitioner(StrEnum):
    """The hash by which producers choose a partition."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    FNV1A = "fnv1a"


def partitions_of(keys: Sequence[bytes], count: int, partitioner: Partitioner) -> NDArray[np.int64]:
    """Return the partition, out of `count`, of each key."""
    if partitioner is Partitioner.CRC32:
        return np.fromiter(map(crc32, keys), np.int64, len(keys)) % count
    if partitioner is Partitioner.FNV1A:
        return np.abs(fnv1a(keys).view(np.int32).astype(np.int64)) % count
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


def murmur2(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return Kafka's 32-bit murmur2 hash of each key."""
    return _by_length(keys, _murmur2)


def fnv1a(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return the 32-bit FNV-1a hash of each key."""
    return _by_length(keys, _fnv1a)


def _by_length(
    keys: Sequence[bytes], hash_rows: Callable[[NDArray[np.uint8]], NDArray[np.uint32]]
) -> NDArray[np.uint32]:
    """Hash keys of the same length together, column by column.

    `hash_rows` hashes rows of shape (n, length) to (n,); numpy's arithmetic is modulo 2^32.
    """
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    hashes = np.empty(len(keys), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        joined = b"".join(map(keys.__getitem__, rows.tolist()))
        hashes[rows] = hash_rows(np.frombuffer(joined, np.uint8).reshape(len(rows), length))
    return hashes


def _fnv1a(grid: NDArray[np.uint8]) -> NDArray[np.uint32]:
    hashed = np.full(len(grid), _FNV_OFFSET, np.uint32)
    for column in range(grid.shape[1]):
        hashed = (hashed ^ grid[:, column]) * _FNV_PRIME
    return hashed


def _murmur2(grid: NDArray[np.uint8]) -> NDArray[np.uint32]:
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
