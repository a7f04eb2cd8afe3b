"""Sorting and merging in pieces come to what sorting the whole would."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.bootstrap.source import seen_entries
from dedupe_worker.store.external_sort import (
    Entries,
    as_run,
    bounds_of_ranges,
    id_bytes,
    merge,
    open_runs,
    sort_entries,
    write_run,
)
from tests.unit.worker.strategies import packed_id

Seen = Sequence[tuple[bytes, int]]

seen = st.lists(st.tuples(packed_id, st.integers(0, 5)), max_size=60)


def rows_from(pairs: Seen) -> Entries:
    return seen_entries(
        b"".join(one for one, _ in pairs), np.array([t for _, t in pairs], np.int64)
    )


def pairs_of(rows: Entries) -> list[tuple[bytes, int]]:
    return list(zip(id_bytes(rows["id"]), rows["position"].tolist(), strict=True))


def sorted_latest(pairs: Seen) -> list[tuple[bytes, int]]:
    """The plain way: bytes compare as RocksDB compares them."""
    return sorted(dict(sorted(pairs, key=lambda pair: pair[1])).items())


@given(seen)
def test_ids_come_back_as_they_went_in(pairs: Seen) -> None:
    assert pairs_of(rows_from(pairs)) == list(pairs)


def test_a_time_before_1970_is_not_taken_for_one_far_ahead() -> None:
    assert rows_from([(b"\1" * 16, -1)])["position"].tolist() == [0]


@given(seen)
def test_each_id_is_kept_once_in_order_with_its_latest_time(pairs: Seen) -> None:
    assert pairs_of(sort_entries(rows_from(pairs))) == sorted_latest(pairs)


@given(st.lists(seen, max_size=4))
def test_merged_runs_are_as_one(parts: list[Seen]) -> None:
    with TemporaryDirectory() as directory:
        paths = [Path(directory) / f"{number}.npy" for number in range(len(parts))]
        for path, part in zip(paths, parts, strict=True):
            write_run(path, rows_from(part))
        runs = open_runs(paths)
        found = [pairs_of(rows) for rows in merge(runs, bounds_of_ranges(runs, 1))]
        assert list(chain(*found)) == sorted_latest(list(chain(*parts)))


@pytest.mark.parametrize("upper", ["random", "the same"])
def test_ranges_are_of_the_size_asked_for(upper: str) -> None:
    """Also of ids that differ only in their last bytes: memory must not depend on what ids look like."""
    rng = Random(7)
    runs = []
    for _ in range(3):
        halves = [rng.getrandbits(64) if upper == "random" else 5 for _ in range(20_000)]
        pairs = [(h.to_bytes(8, "big") + rng.randbytes(8), 1) for h in halves]
        runs.append(as_run(sort_entries(rows_from(pairs))))

    sizes = [len(rows) for rows in merge(runs, bounds_of_ranges(runs, 6_000))]

    assert sum(sizes) == 60_000
    assert max(sizes) < 8_000
    assert len(sizes) == 11
