"""The ids that a store is filled with."""

import numpy as np
import pytest

from benchmarks.harness.traffic import REPEAT_RATE
from benchmarks.scale.ids import (
    FILL_REPEAT_RATE,
    fill_numbers,
    message_numbers,
    packed_ids,
)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_numbers_that_differ_have_ids_that_differ() -> None:
    packed = packed_ids(np.arange(100_000))
    ids = {packed[at : at + 16] for at in range(0, len(packed), 16)}
    assert len(ids) == 100_000


def test_ids_are_spread_over_all_first_bytes() -> None:
    first = np.frombuffer(packed_ids(np.arange(100_000)), np.uint8)[::16]
    counts = np.bincount(first, minlength=256)
    assert counts.min() > 250
    assert counts.max() < 550


@pytest.mark.parametrize("known", [0, 1, 5_000_000])
def test_new_numbers_follow_those_that_are_known(known: int) -> None:
    numbers, new = fill_numbers(known, 10_000, rng())
    assert len(numbers) == 10_000
    fresh = numbers[numbers >= known]
    assert sorted(set(fresh.tolist())) == list(range(known, known + new))


def test_repeats_of_a_fill_are_of_any_number_before() -> None:
    numbers, new = fill_numbers(5_000_000, 1_000_000, rng())
    share = 1 - new / 1_000_000
    assert share == pytest.approx(FILL_REPEAT_RATE, rel=0.1)
    repeated = numbers[numbers < 5_000_000]
    assert repeated.min() < 100_000
    assert repeated.max() > 4_900_000


@pytest.mark.parametrize("known", [0, 3_000_000])
def test_messages_repeat_only_what_was_sent_before(known: int) -> None:
    numbers, new = message_numbers(known, 100_000, rng())
    seen_until = known
    for number in numbers.tolist():
        assert number <= seen_until
        seen_until = max(seen_until, number + 1)
    assert seen_until == known + new
    assert 1 - new / 100_000 == pytest.approx(REPEAT_RATE, rel=0.1)


def test_half_of_the_repeated_messages_are_of_any_age() -> None:
    numbers, new = message_numbers(3_000_000, 100_000, rng())
    old = np.count_nonzero(numbers < 2_990_000)
    assert old == pytest.approx((100_000 - new) / 2, rel=0.1)
