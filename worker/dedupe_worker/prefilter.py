"""An in-memory filter ahead of RocksDB: most new ids never reach the store.

A blocked Bloom filter: each id sets four bits of one 64-bit word, so a check is one memory access. Everything is
done for a whole batch at once in numpy, at about 0.01 us an id, where a RocksDB MultiGet costs 0.5 us an id and
generation. It errs to one side only: an id that was added is always found; of those that were not, under 2 % are
found too at 16 bits an id, and those are looked up in RocksDB.

Layout: a list of word tables ("slabs"), each four times as large as the one before. A slab takes one id for every
quarter word (16 bits an id), then the next one is begun, so memory follows the number of ids and nothing is rehashed.
Source: Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom filters" (2007).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_IDS_PER_WORD: Final = 4
_FIRST_SLAB_BITS: Final = 15  # 32 Ki words: 256 KiB, for 128 Ki ids
_GROWTH_BITS: Final = 2
_K1: Final = np.uint64(0x9E3779B97F4A7C15)
_K2: Final = np.uint64(0xD6E8FEB86659FD93)
_WORD_MASK: Final = np.uint64(63)
_ONE: Final = np.uint64(1)


def hash_ids(packed: bytes) -> Hashes:
    """64 mixed bits for each 16-byte id. The same id has the same hash; time-ordered UUIDs are spread evenly."""
    halves = np.frombuffer(packed, "<u8").reshape(-1, 2)
    mixed: Hashes = (halves[:, 0] * _K1) ^ halves[:, 1]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _K2
    mixed ^= mixed >> np.uint64(29)
    mixed *= _K1
    return mixed


def _bits(hashes: Hashes) -> Hashes:
    """The four bits of each id's word, taken from the low end of the hash (the word is taken from the high end)."""
    bits = _ONE << (hashes & _WORD_MASK)
    for shift in (6, 12, 18):
        bits |= _ONE << ((hashes >> np.uint64(shift)) & _WORD_MASK)
    return bits


class Prefilter:
    """The filter of one generation."""

    def __init__(self, expected_ids: int = 0) -> None:
        self._slabs: list[Hashes] = []
        self._room = 0  # ids the newest slab still takes
        bits = max(_FIRST_SLAB_BITS, (max(expected_ids, 1) // _IDS_PER_WORD).bit_length())
        self._begin_slab(bits)

    @property
    def nbytes(self) -> int:
        """Memory taken, in bytes."""
        return sum(slab.nbytes for slab in self._slabs)

    def add(self, hashes: Hashes) -> None:
        """Remember ids by their hashes."""
        while len(hashes):
            if not self._room:
                self._begin_slab(self._slabs[-1].size.bit_length() - 1 + _GROWTH_BITS)
            now, hashes = hashes[: self._room], hashes[self._room :]
            slab = self._slabs[-1]
            # ufunc.at, because two ids of one batch may share a word: a plain |= would lose one of them.
            np.bitwise_or.at(slab, _word_index(slab, now), _bits(now))
            self._room -= len(now)

    def may_contain(self, hashes: Hashes) -> NDArray[np.bool_]:
        """For each hash: False if that id was certainly never added."""
        bits = _bits(hashes)
        found = np.zeros(len(hashes), np.bool_)
        for slab in self._slabs:
            found |= (slab[_word_index(slab, hashes)] & bits) == bits
        return found

    def _begin_slab(self, bits: int) -> None:
        self._slabs.append(np.zeros(1 << bits, np.uint64))
        self._room = _IDS_PER_WORD << bits


def _word_index(slab: Hashes, hashes: Hashes) -> Hashes:
    return hashes >> np.uint64(65 - slab.size.bit_length())
