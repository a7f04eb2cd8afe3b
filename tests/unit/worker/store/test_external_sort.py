"""Sets of ids that are sorted on disk, against Python's own sets."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.errors import DiskFull, StoreFailed
from dedupe_worker.store.external_sort import (
    ENTRY,
    Entries,
    EntryFile,
    find,
    id_bytes,
    make_entries,
    side_by_side,
    sort_entries,
)
from tests.support.snapshots.volumes import small_volume
from tests.unit.worker.strategies import packed_id

positioned = st.lists(st.tuples(packed_id, st.integers(0, 1 << 40)), max_size=60)


def entries_of(pairs: Sequence[tuple[bytes, int]]) -> Entries:
    packed = b"".join(one for one, _ in pairs)
    return make_entries(packed, np.array([position for _, position in pairs], np.int64))


def pairs_of(entries: Entries) -> list[tuple[bytes, int]]:
    return list(zip(id_bytes(entries["id"]), entries["position"].tolist(), strict=True))


@given(positioned)
def test_sorting_keeps_each_id_once_with_its_largest_position(
    pairs: list[tuple[bytes, int]],
) -> None:
    largest: dict[bytes, int] = {}
    for one, position in pairs:
        largest[one] = max(position, largest.get(one, 0))
    assert pairs_of(sort_entries(entries_of(pairs))) == sorted(largest.items())


@given(positioned, st.lists(packed_id, max_size=60))
def test_finding_is_membership(pairs: list[tuple[bytes, int]], asked: list[bytes]) -> None:
    ids = sort_entries(entries_of(pairs))["id"]
    rows, found = find(ids, make_entries(b"".join(asked))["id"])
    assert found.tolist() == [one in {each for each, _ in pairs} for one in asked]
    assert id_bytes(ids[rows[found]]) == [
        one for one, is_in in zip(asked, found, strict=True) if is_in
    ]


def pieces(entries: Entries, sizes: Sequence[int]) -> Iterator[Entries]:
    """Cut at these sizes, and the rest in one; a piece may be empty."""
    for size in sizes:
        yield entries[:size]
        entries = entries[size:]
    yield entries


@given(st.lists(st.tuples(positioned, st.lists(st.integers(0, 5), max_size=10)), max_size=4))
def test_sources_side_by_side_are_cut_at_the_same_ids(
    drawn: list[tuple[list[tuple[bytes, int]], list[int]]],
) -> None:
    sources = [sort_entries(entries_of(pairs)) for pairs, _ in drawn]
    cut = [pieces(source, sizes) for source, (_, sizes) in zip(sources, drawn, strict=True)]
    ranges = list(side_by_side(cut))
    for number, source in enumerate(sources):
        joined = np.concatenate([np.empty(0, ENTRY), *(parts[number] for parts in ranges)])
        assert pairs_of(joined) == pairs_of(source)
    seen = [[one for part in parts for one, _ in pairs_of(part)] for parts in ranges]
    assert all(seen), "each range has something in it"
    for earlier, later in pairwise(seen):
        assert max(earlier) < min(later)


@pytest.mark.parametrize("largest", [1, 3, 100])
def test_a_file_gives_back_what_was_appended(tmp_path: Path, largest: int) -> None:
    whole = entries_of([(bytes([number] * 16), number) for number in range(10)])
    file = EntryFile(tmp_path / "file")
    assert list(file.pieces(largest)) == []
    for part in pieces(whole, [4, 0, 5]):
        file.append(part)
    read = list(file.pieces(largest))
    assert max(map(len, read)) <= largest
    assert pairs_of(np.concatenate(read)) == pairs_of(whole)


def test_a_file_that_does_not_fit_is_named(tmp_path: Path) -> None:
    with small_volume(tmp_path / "volume", 1 << 16) as volume, pytest.raises(DiskFull):
        EntryFile(volume.path / "file").append(np.zeros(10_000, ENTRY))
    with pytest.raises(StoreFailed, match="Is a directory"):
        EntryFile(tmp_path).append(np.zeros(1, ENTRY))
