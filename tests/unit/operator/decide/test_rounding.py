"""Figures coarse enough to rest."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dedupe_operator.decide.rounding import coarse_age, coarse_count

counts = st.integers(min_value=0, max_value=2**63)
ages = st.timedeltas(min_value=timedelta(), max_value=timedelta(days=4000))


@given(counts)
def test_a_coarse_count_is_below_the_count_by_less_than_a_tenth(count: int) -> None:
    coarse = coarse_count(count)
    assert coarse <= count
    assert count - coarse < max(1, count / 10)


@given(counts)
def test_a_coarse_count_has_two_significant_digits(count: int) -> None:
    assert len(str(coarse_count(count)).rstrip("0")) <= 2
    assert coarse_count(coarse_count(count)) == coarse_count(count)


@given(counts, counts)
def test_coarse_counts_keep_their_order(one: int, other: int) -> None:
    assert coarse_count(min(one, other)) <= coarse_count(max(one, other))


@given(ages)
def test_a_coarse_age_is_below_the_age_by_less_than_half_or_ten_minutes(age: timedelta) -> None:
    coarse = coarse_age(age)
    assert coarse <= age
    assert age - coarse < max(timedelta(minutes=10), age / 2)
    assert coarse_age(coarse) == coarse


@given(ages, ages)
def test_coarse_ages_keep_their_order(one: timedelta, other: timedelta) -> None:
    assert coarse_age(min(one, other)) <= coarse_age(max(one, other))


def test_ages_are_told_in_the_unit_people_would_use() -> None:
    hour, day = timedelta(hours=1), timedelta(days=1)
    assert coarse_age(timedelta(minutes=119)) == timedelta(minutes=110)
    assert coarse_age(timedelta(minutes=179)) == 2 * hour
    assert coarse_age(timedelta(hours=47, minutes=59)) == 47 * hour
    assert coarse_age(timedelta(hours=71)) == 2 * day
