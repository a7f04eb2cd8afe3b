"""An in-memory Bloom filter in front of RocksDB: most new ids never reach it.

A blocked Bloom filter: each id sets four bits of one 64-bit word, so a check is one memory access. Everything is
done for a whole batch at once in numpy, at about 0.01 us an id, where a RocksDB MultiGet costs 0.5 us an id and
generation. There are no false negatives: an id that was added is always found. Of the others, under 2 % are found too
at 16 bits an id, and those are looked up in RocksDB.

Layout: a list of word tables ("slabs"). A slab takes one id for every quarter word (16 bits an id), then a larger one
is begun, so memory follows the number of ids; none is larger than what the generation still takes until it is sealed.
Each slab costs one more lookup and more false positives, so the small ones do not stay: the hashes of the first ids are
kept, and added to the larger slab instead. That begins when the small one is half full, some with each batch: all at
once would hold up the loop for 100 ms. The slab that gets the last of them has room for 16 times as many ids, so a
generation of up to 44 M ids has a single slab unless it was opened again while it was filled. An id's word is the
product of the hash's upper half with the number of words, divided by 2^32: any number of words will do, and a table
folds to half of its size by joining neighbours (`trim`).
Source: Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom filters" (2007); Lemire, "Fast random
integer generation in an interval" (2019).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_IDS_PER_WORD: Final = 4
_FIRST_SLAB_IDS: Final = 4 << 15  # 256 KiB
# 22 MB of hashes, until the next slab takes them.
_EARLY_IDS: Final = (1 + 4 + 16) * _FIRST_SLAB_IDS
_GROWTH: Final = 4
# Of the first ids, so many go to the next slab with each new one. Two would do: all of a slab in its second half.
_MOVED_PER_ID: Final = 3
_LAST_GROWTH: Final = 16  # of the slab that the early ids stay in
# A generation that grows beyond its expected size grows by eighths of it.
_BEYOND: Final = 8
# Sizes are multiples of it, so that they can be halved ten times.
_WORDS_STEP: Final = 1 << 10
_HALF: Final = np.uint64(32)
_K1: Final = np.uint64(0x9E3779B97F4A7C15)
_K2: Final = np.uint64(0xD6E8FEB86659FD93)
_WORD_MASK: Final = np.uint64(63)
_ONE: Final = np.uint64(1)


def hash_ids(packed: bytes) -> Hashes:
    """Return 64 mixed bits for each 16-byte id.

    The same id has the same hash; time-ordered UUIDs are spread evenly.
    """
    halves = np.frombuffer(packed, "<u8").reshape(-1, 2)
    mixed: Hashes = (halves[:, 0] * _K1) ^ halves[:, 1]
    mixed ^= mixed >> np.uint64(32)
    mixed *= _K2
    mixed ^= mixed >> np.uint64(29)
    mixed *= _K1
    return mixed


def _bits(hashes: Hashes) -> Hashes:
    """Return the four bits of each id's word, from the low end of the hash.

    The word is chosen by its high end.
    """
    bits = _ONE << (hashes & _WORD_MASK)
    for shift in (6, 12, 18):
        bits |= _ONE << ((hashes >> np.uint64(shift)) & _WORD_MASK)
    return bits


@dataclass(slots=True)
class Slab:
    """One table: shape (words,), and the number of ids it still takes."""

    words: Hashes
    room: int


class BloomFilter:
    """The filter of one generation.

    `expected_ids` are taken by the first slab; `most_ids` is about what the generation holds when it is sealed; `slabs`
    are those of a filter that was kept.
    """

    def __init__(
        self, expected_ids: int = 0, most_ids: int = 1 << 40, slabs: Iterable[Slab] = ()
    ) -> None:
        self._most_ids = most_ids
        self.slabs = list(slabs)
        self._early: Hashes | None = None
        self._next: Slab | None = None
        if not self.slabs:
            self.slabs = [_slab(max(expected_ids, min(_FIRST_SLAB_IDS, most_ids)))]
            if self._capacity <= _EARLY_IDS:
                self._early = np.empty(_EARLY_IDS, np.uint64)

    @property
    def nbytes(self) -> int:
        """Return the size in memory, in bytes."""
        return sum(slab.words.nbytes for slab in (*self.slabs, self._next) if slab)

    def add(self, hashes: Hashes) -> None:
        """Add ids by their hashes."""
        while len(hashes):
            if not self.slabs[-1].room:
                self._grow()
            room = self.slabs[-1].room
            now, hashes = hashes[:room], hashes[room:]
            _add(self.slabs[-1], now)
            if self._early is not None:
                held = self._capacity - room
                self._early[held : held + len(now)] = now
                self._move(self._early[: held + len(now)], _MOVED_PER_ID * len(now))

    def may_contain(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each hash False if its id was certainly never added."""
        return any_may_contain([self], hashes)

    def trim(self) -> None:
        """Free unused memory.

        For a filter to which few or no more ids will be added.
        """
        self._early = self._next = None
        slab = self.slabs[-1]
        while slab.room * 2 >= slab.words.size * _IDS_PER_WORD and slab.words.size % 2 == 0:
            slab.words = slab.words[0::2] | slab.words[1::2]
            slab.room -= slab.words.size * _IDS_PER_WORD

    @property
    def _capacity(self) -> int:
        return sum(slab.words.size for slab in self.slabs) * _IDS_PER_WORD

    def _move(self, early: Hashes, most: int) -> None:
        """Add up to `most` of the first ids to the next slab, once this one is half full."""
        if self._next is None:
            half = self._capacity // 2
            if len(early) < half or self._capacity >= self._most_ids:
                return
            self._next = _slab(self._capacity + self._next_ids)
        moved = self._next.words.size * _IDS_PER_WORD - self._next.room
        _add(self._next, early[moved : moved + most])

    @property
    def _next_ids(self) -> int:
        """Return how many more ids the filter takes after its next growth."""
        held = self._capacity
        keeps_early = _GROWTH * held + _FIRST_SLAB_IDS <= _EARLY_IDS
        growth = _GROWTH if keeps_early else _LAST_GROWTH
        grown = (growth - 1) * held + _FIRST_SLAB_IDS
        return min(grown, max(self._most_ids - held, self._most_ids // _BEYOND))

    def _grow(self) -> None:
        if self._early is None:
            self.slabs.append(_slab(self._next_ids))
            return
        if self._next is None:  # beyond what the generation is expected to hold
            self._next = _slab(self._capacity + self._next_ids)
        self._move(self._early[: self._capacity], self._capacity)
        self.slabs, self._next = [self._next], None
        if self._capacity > _EARLY_IDS:
            self._early = None


def _slab(ids: int) -> Slab:
    steps = -(-ids // (_IDS_PER_WORD * _WORDS_STEP))
    words = np.zeros(max(1, steps) * _WORDS_STEP, np.uint64)
    return Slab(words, words.size * _IDS_PER_WORD)


def _add(slab: Slab, hashes: Hashes) -> None:
    # ufunc.at, because two ids of one batch may share a word: a plain |= would lose one of them.
    np.bitwise_or.at(slab.words, _word_index(slab.words, hashes), _bits(hashes))
    slab.room -= len(hashes)


def any_may_contain(bloom_filters: Iterable[BloomFilter], hashes: Hashes) -> NDArray[np.bool_]:
    """Return for each hash False if its id was certainly never added to any filter."""
    bits = _bits(hashes)
    found = np.zeros(len(hashes), np.bool_)
    for bloom_filter in bloom_filters:
        for slab in bloom_filter.slabs:
            # mode="clip" spares numpy the check of the bounds: a quarter of the time.
            words = slab.words.take(_word_index(slab.words, hashes), mode="clip")
            words &= bits
            found |= words == bits
    return found


def _word_index(words: Hashes, hashes: Hashes) -> NDArray[np.int64]:
    index: Hashes = (hashes >> _HALF) * np.uint64(words.size) >> _HALF
    return index.view(np.int64)  # numpy would convert unsigned indices
