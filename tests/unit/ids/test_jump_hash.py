"""The partition of an id: bit by bit that of the paper, even, and the same for ever."""

import random
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedupe_ids.jump_hash import (
    jump_hash,
    partitions_of_ids,
    partitions_of_keys,
)

WRAP = 1 << 64
MANY = 100_000

# Of github.com/dgryski/go-jump, generated there by the authors' C++ code: the buckets for the counts 1 to 19.
PUBLISHED = {
    0: [0] * 19,
    1: [0] * 6 + [6] * 11 + [17] * 2,
    0xDEADBEEF: [0, 1, 2, 3, 3] + [5] * 11 + [16] * 3,
    0x0DDC0FFEEBADF00D: [0, 1] + [2] * 13 + [15] * 4,
}

COUNTS = (1, 2, 12, 100, 1000, 65536)
# For ever: the partition of an id, or of a key, for each of COUNTS. Computed by `by_the_contract`, not by the product.
OF_IDS = {
    "00000000000000000000000000000000": (0, 0, 0, 0, 0, 0),
    "00000000000000000000000000000001": (0, 0, 8, 8, 368, 63765),
    "01000000000000000000000000000000": (0, 1, 1, 60, 338, 23298),
    "000102030405060708090a0b0c0d0e0f": (0, 0, 5, 71, 964, 24557),
    "ffffffffffffffffffffffffffffffff": (0, 0, 0, 44, 44, 6334),
    "0190f2b47c1e7a3d8f000123456789ab": (0, 0, 0, 77, 314, 53104),
    "2f1d3a5e9c474b6aa0de5c8e7f901234": (0, 0, 7, 48, 966, 44926),
}
OF_KEYS = {
    b"": (0, 0, 11, 50, 473, 42507),
    b"customer-7": (0, 0, 2, 2, 219, 51778),
    b"2f1d3a5e-9c47-4b6a-a0de-5c8e7f901234": (0, 1, 1, 1, 1, 5760),
}

counts = st.integers(1, 65536)
keys = st.integers(0, WRAP - 1)


def in_the_paper(key: int, count: int) -> int:
    """The C++ code of the paper."""
    b, j = -1, 0
    while j < count:
        b = j
        key = (key * 2862933555777941757 + 1) % WRAP
        j = int((b + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return b


def mixed(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WRAP
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WRAP
    return z ^ (z >> 31)


def by_the_contract(identity: bytes, count: int) -> int:
    first, second = (int.from_bytes(half, "little") for half in (identity[:8], identity[8:]))
    return in_the_paper(mixed(mixed(first) ^ second), count)


def array(some: Sequence[int]) -> NDArray[np.uint64]:
    return np.array(some, np.uint64)


@pytest.mark.parametrize("key", PUBLISHED)
def test_buckets_are_the_published_ones(key: int) -> None:
    for count, bucket in enumerate(PUBLISHED[key], 1):
        assert in_the_paper(key, count) == bucket
        assert jump_hash(array([key]), count).tolist() == [bucket]


@given(st.lists(keys), counts)
def test_buckets_of_a_batch_are_those_of_the_paper(some: list[int], count: int) -> None:
    with warnings.catch_warnings(action="error"):
        found = jump_hash(array(some), count)
    assert found.tolist() == [in_the_paper(key, count) for key in some]


def test_keys_are_not_changed() -> None:
    some = array([1, 2, 3])
    jump_hash(some, 100)
    assert some.tolist() == [1, 2, 3]


@pytest.mark.parametrize("count", [-1, 0, 65537])
def test_a_count_that_no_topic_has_is_refused(count: int) -> None:
    for keys in (array([1]), array([])):
        with pytest.raises(ValueError, match="must be 1 to 65536"):
            jump_hash(keys, count)
    with pytest.raises(ValueError, match="must be 1 to 65536"):
        partitions_of_ids(bytes(16), count)


@given(st.lists(st.binary(min_size=16, max_size=16)), counts)
def test_ids_go_where_the_contract_says(ids: list[bytes], count: int) -> None:
    with warnings.catch_warnings(action="error"):
        found = partitions_of_ids(b"".join(ids), count)
    assert found.tolist() == [by_the_contract(each, count) for each in ids]


def test_ids_go_where_they_have_always_gone() -> None:
    packed = bytes.fromhex("".join(OF_IDS))
    found = [partitions_of_ids(packed, count).tolist() for count in COUNTS]
    assert list(zip(*found, strict=True)) == list(OF_IDS.values())


def test_keys_go_where_they_have_always_gone() -> None:
    found = [partitions_of_keys(list(OF_KEYS), count).tolist() for count in COUNTS]
    assert list(zip(*found, strict=True)) == list(OF_KEYS.values())


@given(st.lists(st.binary()), counts)
def test_a_key_goes_the_same_way_alone_and_among_others(some: list[bytes], count: int) -> None:
    alone = [int(partitions_of_keys([key], count)[0]) for key in some]
    assert partitions_of_keys(some, count).tolist() == alone


@cache
def sequential() -> bytes:
    return b"".join(number.to_bytes(16, "big") for number in range(MANY))


@cache
def sequential_in_the_first_half() -> bytes:
    return b"".join(number.to_bytes(8, "big") + bytes(8) for number in range(MANY))


@cache
def uuids_v4() -> bytes:
    source = random.Random(4)
    return b"".join(UUID(int=source.getrandbits(128), version=4).bytes for _ in range(MANY))


@cache
def uuids_v7() -> bytes:
    """Ten ids in each millisecond, as of a busy producer."""
    source = random.Random(7)
    start = 1_800_000_000_000
    version, variant = 7 << 76, 2 << 62
    return b"".join(
        (
            (start + number // 10 << 80)
            | version
            | source.getrandbits(12) << 64
            | variant
            | source.getrandbits(62)
        ).to_bytes(16, "big")
        for number in range(MANY)
    )


KINDS = [sequential, sequential_in_the_first_half, uuids_v4, uuids_v7]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 12, 20])
def test_partitions_get_the_same_share(kind: Callable[[], bytes], count: int) -> None:
    sizes = np.bincount(partitions_of_ids(kind(), count), minlength=count)
    # A share of n ids varies by the root of n: 5 % is more than 3.5 standard deviations of the smallest one here.
    assert np.abs(sizes / (MANY / count) - 1).max() < 0.05


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "after"), [(1, 2), (12, 13), (12, 24), (100, 300)])
def test_growth_moves_ids_only_to_new_partitions(
    kind: Callable[[], bytes], before: int, after: int
) -> None:
    packed = kind()
    old, new = partitions_of_ids(packed, before), partitions_of_ids(packed, after)
    moved = old != new
    assert (new[moved] >= before).all()
    assert moved.mean() == pytest.approx((after - before) / after, rel=0.05)
