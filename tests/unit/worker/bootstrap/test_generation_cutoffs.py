"""Ids of the past go into generations of like size, oldest first, and no more of them than the window holds."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.bootstrap.generation_cutoffs import TimeHistogram, TooManyAtOnce, plan_cutoffs
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.external_sort import ENTRY, Entries

NOW_MS = 1_800_000_000_000


def bounds(ids: int, generations: int = 5) -> Bounds:
    """With room for so many ids."""
    return Bounds(max_bytes=37 * ids, max_age=timedelta(days=28), generations=generations)


def rows_seen(times: list[int]) -> Entries:
    rows = np.zeros(len(times), ENTRY)
    rows["position"] = times
    return rows


def histogram_of(rows: Entries) -> TimeHistogram:
    found = TimeHistogram(int(rows["position"].min()), int(rows["position"].max()))
    found.add(rows)
    return found


times = st.lists(
    st.integers(NOW_MS - 8_000, NOW_MS) | st.integers(NOW_MS - 50, NOW_MS), min_size=1, max_size=200
)


@given(times, st.integers(1, 250), st.integers(2, 16))
def test_what_is_left_out_is_older_than_all_that_is_kept(
    seen: list[int], room: int, generations: int
) -> None:
    rows = rows_seen(seen)
    try:
        cuts = plan_cutoffs(histogram_of(rows), bounds(room, generations))
    except TooManyAtOnce:
        assert seen.count(max(seen)) > room
        return
    placed = cuts.generations(rows)
    kept = rows["position"][placed >= 0]
    assert len(kept) <= room
    assert (
        len(kept) == len(seen) or len(kept) + seen.count(rows["position"][placed < 0].max()) > room
    )
    assert placed.max() < generations
    order = np.argsort(rows["position"], kind="stable")
    assert (np.diff(placed[order]) >= 0).all()


def test_generations_are_of_like_size_whatever_the_rate() -> None:
    """Most ids of the last hour, the others of a month: by time alone, one generation would hold nearly all."""
    month = list(range(NOW_MS - 28 * 86_400_000, NOW_MS, 2_419_200))
    rows = rows_seen(month + list(range(NOW_MS - 3_600_000, NOW_MS, 400)))

    placed = plan_cutoffs(histogram_of(rows), bounds(100_000)).generations(rows)

    assert np.bincount(placed).tolist() == pytest.approx([2_000] * 5, rel=0.6)


def test_more_ids_of_one_time_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(TooManyAtOnce, match="11 ids were seen at much the same time, and 10 fit"):
        plan_cutoffs(histogram_of(rows_seen([NOW_MS] * 11)), bounds(10))
