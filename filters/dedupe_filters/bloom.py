"""Small Bloom filters: a value sets k bits; a value with an unset bit is absent.

The worker and the backfill build them, the readers test them.

    bit j of a filter is bit j % 8 (from the lowest) of byte j // 8
    bits of a value: the first k of the 16 little-endian 32-bit words of its 64-byte BLAKE2b hash, each modulo the
    filter's bits

With m bits and n distinct values the rate of false matches is (1 - e^(-kn/m))^k (Bloom, 1970). RabbitMQ has k = 2 and
publishes the rates that follow: 2 % for 10 values in 16 bytes, 14 % for 30, 10 % for 200 in 128 bytes. Here k is the
best for n and is stored with the bits: 0.2 %, 13 % and 9 %.
"""

from collections.abc import Iterable
from hashlib import blake2b
from math import expm1
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_HASHES: Final = 16

# With so many distinct values for each bit nearly all bits are set, whatever the hash.
_FULL: Final = 4


class Bloom(NamedTuple):
    """A filter: the number of bits that each value sets, and the bits."""

    hashes: int
    bits: bytes


def build(values: Iterable[bytes], size_bytes: int) -> Bloom:
    """Return a filter of `size_bytes` with the values; about 1 us a distinct value."""
    distinct = set(values)
    size = 8 * size_bytes
    if len(distinct) >= full(size_bytes):
        return Bloom(1, b"\xff" * size_bytes)
    hashes = best_hashes(len(distinct), size_bytes)
    bits = np.zeros(size, np.bool_)
    for value in distinct:
        bits[_words(value)[:hashes] % size] = True
    return Bloom(hashes, np.packbits(bits, bitorder="little").tobytes())


def may_contain(bloom: Bloom, value: bytes) -> bool:
    """Return whether the filter may contain a value; False is certain.

    >>> may_contain(build([b"DE", b"FR"], 16), b"DE")
    True
    """
    bits = int.from_bytes(bloom.bits, "little")
    size = 8 * len(bloom.bits)
    return all(bits >> int(word) % size & 1 for word in _words(value)[: bloom.hashes])


def may_contain_any(
    bits: NDArray[np.uint8], hashes: NDArray[np.integer[Any]], values: Iterable[bytes]
) -> NDArray[np.bool_]:
    """Test which of many filters of one size may contain at least one of the values.

    `bits` has the shape (filters, bytes), `hashes` and the result (filters,).
    """
    found = np.zeros(len(bits), np.bool_)
    most = int(hashes.max(initial=0))
    for value in values:
        places = _words(value)[:most] % (8 * bits.shape[1])
        hit = ~found
        for number, place in enumerate(places):
            is_set = bits[:, place >> 3] >> (place & 7).astype(np.uint8) & 1
            hit &= is_set.astype(np.bool_) | (hashes <= number)
        found |= hit
    return found


def full(size_bytes: int) -> int:
    """Return the number of distinct values at which a filter matches everything."""
    return _FULL * 8 * size_bytes


def best_hashes(values: int, size_bytes: int) -> int:
    """Return the k, of 1 to MAX_HASHES, with the fewest false matches.

    >>> best_hashes(10, 16), best_hashes(30, 16), best_hashes(200, 128)
    (9, 3, 4)
    """
    return min(
        range(1, MAX_HASHES + 1), key=lambda hashes: false_matches(values, size_bytes, hashes)
    )


def false_matches(values: int, size_bytes: int, hashes: int) -> float:
    """Return the expected rate of false matches with so many distinct values.

    >>> round(false_matches(30, 16, 2), 2)
    0.14
    """
    return float(-expm1(-hashes * values / (8 * size_bytes))) ** hashes


def _words(value: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(blake2b(value).digest(), "<u4")
