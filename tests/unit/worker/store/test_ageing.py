"""Ageing keeps the window within its bounds, gives up the oldest first, and no more than it must."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.store.ageing import Ageing, Bounds, Generation, plan_ageing, window_seconds

bounds = st.builds(
    Bounds,
    max_bytes=st.integers(16, 1000) | st.just(10_000),
    max_age=st.integers(2, 1000).map(lambda ms: timedelta(milliseconds=ms)),
    generations=st.integers(2, 16),
)


@st.composite
def rows(draw: st.DrawFn) -> list[Generation]:
    """Generations, oldest first, seen one after the other; the newest may be empty."""
    sizes = draw(st.lists(st.integers(0, 500), min_size=1, max_size=8))
    steps = st.lists(st.integers(0, 300), min_size=2 * len(sizes), max_size=2 * len(sizes))
    times = list(accumulate(draw(steps)))
    found = [
        Generation(
            name=f"g{place}",
            keys=1 + size // 30,
            size_bytes=size,
            first_seen_ms=0,
            last_seen_ms=0,
            aged_from_ms=times[2 * place],
            aged_to_ms=times[2 * place + 1],
        )
        for place, size in enumerate(sizes)
    ]
    if draw(st.booleans()):
        found[-1] = replace(found[-1], keys=0, aged_from_ms=0, aged_to_ms=0)
    return found


def kept(generations: Sequence[Generation], plan: Ageing) -> list[Generation]:
    return [each for each in generations if each.name not in plan.drop]


def age_ms(limit: Bounds) -> float:
    return limit.max_age / timedelta(milliseconds=1)


@given(rows(), bounds, st.integers(0, 3000))
def test_the_oldest_go_first_and_the_newest_never(
    generations: list[Generation], limit: Bounds, now_ms: int
) -> None:
    plan = plan_ageing(generations, limit, now_ms)
    assert list(plan.drop) == [each.name for each in generations][: len(plan.drop)]
    assert generations[-1].name not in plan.drop


@given(rows(), bounds, st.integers(0, 3000))
def test_what_is_kept_fits_unless_it_is_the_newest_alone(
    generations: list[Generation], limit: Bounds, now_ms: int
) -> None:
    left = kept(generations, plan_ageing(generations, limit, now_ms))
    assert len(left) == 1 or sum(each.size_bytes for each in left) <= limit.max_bytes


@given(rows(), bounds, st.integers(0, 3000))
def test_a_generation_is_given_up_only_for_age_or_for_size(
    generations: list[Generation], limit: Bounds, now_ms: int
) -> None:
    plan = plan_ageing(generations, limit, now_ms)
    total = sum(each.size_bytes for each in generations)
    for each in generations[: len(plan.drop)]:
        assert total > limit.max_bytes or each.aged_to_ms <= now_ms - age_ms(limit)
        total -= each.size_bytes


@given(rows(), bounds, st.integers(0, 3000))
def test_nothing_of_a_sealed_generation_outlives_the_age_by_more_than_its_own_span(
    generations: list[Generation], limit: Bounds, now_ms: int
) -> None:
    plan = plan_ageing(generations, limit, now_ms)
    for each in kept(generations, plan)[:-1]:
        assert each.aged_to_ms > now_ms - age_ms(limit)


@given(rows(), bounds, st.integers(0, 3000))
def test_the_newest_is_sealed_when_it_holds_its_share_of_size_or_time(
    generations: list[Generation], limit: Bounds, now_ms: int
) -> None:
    newest = generations[-1]
    is_full = newest.size_bytes >= limit.max_bytes // limit.generations
    is_old = now_ms - newest.aged_from_ms >= age_ms(limit) / limit.generations
    plan = plan_ageing(generations, limit, now_ms)
    assert plan.seal == (newest.keys > 0 and (is_full or is_old))


@given(rows(), bounds, st.integers(0, 3000))
def test_it_says_so_when_ids_are_given_up_for_size(
    generations: list[Generation], limit: Bounds, now_ms: int
) -> None:
    plan = plan_ageing(generations, limit, now_ms)
    young = [
        each for each in generations[: len(plan.drop)] if each.aged_to_ms > now_ms - age_ms(limit)
    ]
    if young:
        assert plan.drops_for_size
    if plan.drops_for_size:
        assert plan.drop
        assert sum(each.size_bytes for each in generations) > limit.max_bytes


@given(rows(), bounds, st.integers(0, 3000))
def test_ageing_once_is_enough(generations: list[Generation], limit: Bounds, now_ms: int) -> None:
    left = kept(generations, plan_ageing(generations, limit, now_ms))
    assert plan_ageing(left, limit, now_ms).drop == ()


def test_a_window_that_is_within_its_bounds_is_left_alone() -> None:
    limit = Bounds(max_bytes=100, max_age=timedelta(seconds=10), generations=5)
    one = Generation(
        name="g1",
        keys=1,
        size_bytes=19,
        first_seen_ms=0,
        last_seen_ms=0,
        aged_from_ms=0,
        aged_to_ms=0,
    )
    assert plan_ageing([one], limit, 1_999) == Ageing(seal=False, drop=(), drops_for_size=False)


@given(rows(), st.integers(0, 5000))
def test_the_window_is_as_old_as_its_oldest_id(generations: list[Generation], now_ms: int) -> None:
    oldest = min((each.aged_from_ms for each in generations if each.keys), default=now_ms)
    assert window_seconds(generations, now_ms) == max(0, now_ms - oldest) / 1000
