"""The filter may err to one side only, and not often."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.store import bloom_filter as module
from dedupe_worker.store.bloom_filter import BloomFilter, Hashes, Slab, hash_ids
from tests.unit.worker.strategies import packed_id

FIRST_SLAB_IDS = 4 << 15


def make_ids(kind: str, seed: int, count: int) -> bytes:
    """Different ids of a kind: random, a counter in the last bytes, or UUIDs of version 1."""
    if kind == "random":
        return Random(seed).randbytes(16 * count)
    halves = np.zeros((count, 2), ">u8")
    counter = np.arange(count, dtype=np.uint64)
    halves[:, 1] = counter if kind == "counter" else 0x8A3B_0242_AC12_0002
    halves[:, 0] = 0 if kind == "counter" else counter << np.uint64(32) | np.uint64(0x4F3A11EF)
    return halves.tobytes()


@given(st.lists(st.lists(packed_id, max_size=30), max_size=5), st.integers(0, 2 * FIRST_SLAB_IDS))
def test_an_id_that_was_added_is_always_found(batches: list[list[bytes]], expected: int) -> None:
    bloom_filter = BloomFilter(expected)
    for batch in batches:
        bloom_filter.add(hash_ids(b"".join(batch)))
    for batch in batches:
        assert bloom_filter.may_contain(hash_ids(b"".join(batch))).all()


@pytest.mark.parametrize("batch", [1_000, 99_991, 700_000])
def test_growing_forgets_nothing(batch: int) -> None:
    bloom_filter, packed = BloomFilter(), Random(batch).randbytes(16 * 700_000)
    for start in range(0, len(packed), 16 * batch):
        bloom_filter.add(hash_ids(packed[start : start + 16 * batch]))
    assert bloom_filter.may_contain(hash_ids(packed)).all()
    assert bloom_filter.nbytes > BloomFilter().nbytes


def test_no_batch_pays_for_a_growth_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bloom_filter, hashes, batch = BloomFilter(), hash_ids(Random(4).randbytes(16 * 700_000)), 2_000
    added: list[int] = []
    add = vars(module)["_add"]

    def counted(slab: Slab, new: Hashes) -> None:
        added.append(len(new))
        add(slab, new)

    monkeypatch.setattr("dedupe_worker.store.bloom_filter._add", counted)
    costs = []
    for start in range(0, len(hashes), batch):
        added.clear()
        bloom_filter.add(hashes[start : start + batch])
        costs.append(sum(added))
    assert len(bloom_filter.slabs) == 1, "its ids went to a larger table each time"
    assert max(costs) <= 6 * batch


@pytest.mark.parametrize("slabs", [1, 3])
@pytest.mark.parametrize("kind", ["random", "counter", "version 1"])
def test_few_ids_that_were_not_added_are_found_when_its_slabs_are_full(
    slabs: int, kind: str
) -> None:
    count = sum(FIRST_SLAB_IDS * 4**slab for slab in range(slabs))
    hashes = hash_ids(make_ids(kind, slabs, count + 200_000))
    bloom_filter = BloomFilter()
    bloom_filter.add(hashes[:count])
    bloom_filter.trim()  # what the next growth needs
    assert bloom_filter.nbytes * 8 == 16 * count, "not at its design load"
    assert bloom_filter.may_contain(hashes[count:]).mean() < 0.03


def test_a_filter_made_for_a_number_of_ids_takes_them_in_one_slab() -> None:
    bloom_filter = BloomFilter(expected_ids=1_000_000)
    before = bloom_filter.nbytes
    bloom_filter.add(hash_ids(Random(1).randbytes(16 * 1_000_000)))
    bloom_filter.trim()  # what the next growth needs
    assert bloom_filter.nbytes == before <= 4 * 1_000_000


def test_an_empty_filter_finds_nothing_and_no_ids_are_no_error() -> None:
    bloom_filter = BloomFilter()
    bloom_filter.add(hash_ids(b""))
    assert not bloom_filter.may_contain(hash_ids(b"")).any()
    assert not bloom_filter.may_contain(hash_ids(Random(1).randbytes(1600))).any()


def test_a_filter_takes_little_more_than_the_generation_is_expected_to_hold() -> None:
    count = 1_500_000
    bloom_filter, hashes = (
        BloomFilter(most_ids=count),
        hash_ids(Random(2).randbytes(16 * 2 * count)),
    )
    bloom_filter.add(hashes[:count])
    assert bloom_filter.nbytes < 2.02 * count
    bloom_filter.add(hashes[count:])
    assert bloom_filter.may_contain(hashes).all()
    assert bloom_filter.nbytes < 1.2 * 2 * 2 * count, "beyond it grows by small steps"


@pytest.mark.parametrize(
    ("most_ids", "nbytes"),
    [(40_000_000, 80_000_000), (1 << 40, 88_000_000)],
    ids=["a generation", "without a bound"],
)
def test_the_slab_after_the_early_ids_takes_a_generation_and_no_more_than_16_times_their_number(
    most_ids: int, nbytes: int
) -> None:
    count = 21 * FIRST_SLAB_IDS
    hashes = hash_ids(Random(4).randbytes(16 * (count + 1)))
    bloom_filter = BloomFilter(most_ids=most_ids)
    bloom_filter.add(hashes[:count])
    (slab,) = bloom_filter.slabs
    assert slab.words.nbytes == 2 * count, "tables follow the ids until then"
    bloom_filter.add(hashes[count:])
    assert len(bloom_filter.slabs) == 1
    assert nbytes <= bloom_filter.nbytes < 1.01 * nbytes
    assert bloom_filter.may_contain(hashes).all()


@pytest.mark.parametrize("count", [0, 1, 10_000, 140_000, 300_000])
def test_trimming_forgets_nothing_and_leaves_less_than_twice_what_is_needed(count: int) -> None:
    bloom_filter, hashes = BloomFilter(), hash_ids(Random(3).randbytes(16 * (count + 200_000)))
    bloom_filter.add(hashes[:count])
    bloom_filter.trim()
    assert bloom_filter.may_contain(hashes[:count]).all()
    assert bloom_filter.may_contain(hashes[count:]).mean() < 0.03
    assert bloom_filter.nbytes <= 4 * count + 8192
    bloom_filter.add(hashes[count:])
    assert bloom_filter.may_contain(hashes).all()
