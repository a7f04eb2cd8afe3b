"""The partition of an id: against the paper's algorithm, published vectors, and itself."""

import random
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_ids.jump_hash import jump_hash, partitions_of_ids, partitions_of_keys

PUBLISHED = {
    0: [0] * 19,
    1: [0] * 6 + [6] * 11 + [17] * 2,
    0xDEADBEEF: [0, 1, 2, 3, 3] + [5] * 11 + [16] * 3,
    0x0DDC0FFEEBADF00D: [0, 1] + [2] * 13 + [15] * 4,
}
"""For 1 to 19 partitions, as implementations of the paper publish them."""


def of_the_paper(key: int, count: int) -> int:
    """The paper's C++ code, word for word."""
    b, j = -1, 0
    while j < count:
        b = j
        key = (key * 2862933555777941757 + 1) % 2**64
        j = int((b + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return b


def mixed(number: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number = (number ^ (number >> shift)) * factor % 2**64
    return number ^ (number >> 31)


@pytest.mark.parametrize("key", PUBLISHED, ids=hex)
def test_published_vectors(key: int) -> None:
    keys = np.array([key], np.uint64)
    assert [int(jump_hash(keys, count)[0]) for count in range(1, 20)] == PUBLISHED[key]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50), st.integers(1, 2**16))
def test_a_batch_is_hashed_as_the_paper_hashes_each_key(keys: list[int], count: int) -> None:
    found = jump_hash(np.array(keys, np.uint64), count)
    assert found.tolist() == [of_the_paper(key, count) for key in keys]


@pytest.mark.parametrize("count", [0, -1, 2**16 + 1])
def test_a_count_that_kafka_cannot_have_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="allowed are 1 to 65536"):
        jump_hash(np.zeros(1, np.uint64), count)


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=20), st.integers(1, 1000))
def test_both_halves_of_an_id_are_mixed(ids: list[bytes], count: int) -> None:
    halves = [(int.from_bytes(i[:8], "little"), int.from_bytes(i[8:], "little")) for i in ids]
    expected = [of_the_paper(mixed(mixed(low) ^ high), count) for low, high in halves]
    assert partitions_of_ids(b"".join(ids), count).tolist() == expected


def test_the_partition_of_an_id_never_changes() -> None:
    ids = [bytes(range(16)), bytes(16), UUID("0192d2f0-6f3a-7c1e-8b5a-1f2e3d4c5b6a").bytes]
    packed = b"".join(ids)
    assert [partitions_of_ids(packed, count).tolist() for count in (2, 6, 1000)] == GOLDEN_IDS
    assert partitions_of_keys([b"", b"k", b"customer-42"], 12).tolist() == GOLDEN_KEYS


GOLDEN_IDS = [[0, 0, 1], [5, 0, 4], [964, 0, 52]]
GOLDEN_KEYS = [11, 6, 9]


def sequential(number: int) -> bytes:
    return number.to_bytes(16, "big")


def by_time(number: int) -> bytes:
    """As UUIDs of version 7 are: milliseconds first, then a random part."""
    rest = random.Random(number).getrandbits(74)
    high, low = rest >> 62, rest & (2**62 - 1)
    return ((1_700_000_000_000 + number << 80) | 7 << 76 | high << 64 | 2 << 62 | low).to_bytes(16)


def at_random(number: int) -> bytes:
    return UUID(int=random.Random(number).getrandbits(128), version=4).bytes


@pytest.mark.parametrize("kind", [sequential, by_time, at_random])
def test_ids_of_any_kind_fill_all_partitions_alike(kind: object) -> None:
    assert callable(kind)
    packed = b"".join(kind(number) for number in range(40_000))
    counted = np.bincount(partitions_of_ids(packed, 8), minlength=8)
    assert counted.min() > 0.94 * 5000
    assert counted.max() < 1.06 * 5000


def test_growth_moves_a_third_of_the_ids_and_only_into_new_partitions() -> None:
    packed = b"".join(at_random(number) for number in range(30_000))
    before, after = partitions_of_ids(packed, 4), partitions_of_ids(packed, 6)
    moved = before != after
    assert abs(moved.mean() - 1 / 3) < 0.02
    assert set(after[moved].tolist()) == {4, 5}
