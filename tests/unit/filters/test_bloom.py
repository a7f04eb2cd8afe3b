"""Bloom filters: never a false no, and as few false yeses as the maths and RabbitMQ's pages say."""

import random
from math import ceil, floor, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_filters.bloom import (
    MAX_HASHES,
    Bloom,
    best_hashes,
    build,
    false_matches,
    full,
    may_contain,
    may_contain_any,
)

SIZES = st.integers(16, 255)
VALUES = st.lists(st.binary(max_size=20), max_size=60)


@given(VALUES, SIZES)
def test_every_value_that_was_put_in_may_be_there(values: list[bytes], size: int) -> None:
    bloom = build(values, size)

    assert len(bloom.bits) == size
    assert all(may_contain(bloom, value) for value in values)


def test_a_filter_that_is_full_says_yes_to_everything() -> None:
    values = [b"%d" % number for number in range(full(16))]

    bloom = build(values, 16)

    assert bloom == Bloom(1, b"\xff" * 16)


@given(
    st.lists(st.integers(0, 100), max_size=8),
    st.sampled_from([16, 17, 64]),
    st.lists(st.integers(0, 120), max_size=5),
)
def test_many_filters_at_once_say_what_each_says(
    counts: list[int], size: int, asked: list[int]
) -> None:
    """Of few values and of many, so that each value sets now many bits and now few."""
    blooms = [build([b"%d" % n for n in range(count)], size) for count in counts]
    wanted = [b"%d" % n for n in asked]
    bits = np.array([list(bloom.bits) for bloom in blooms], np.uint8).reshape(-1, size)
    hashes = np.array([bloom.hashes for bloom in blooms], np.int64)

    found = may_contain_any(bits, hashes, wanted)

    assert found.tolist() == [
        any(may_contain(bloom, value) for value in wanted) for bloom in blooms
    ]


@pytest.mark.parametrize(
    ("values", "size", "published"), [(10, 16, 0.02), (30, 16, 0.14), (200, 128, 0.10)]
)
def test_false_matches_are_as_few_as_published_and_as_computed(
    values: int, size: int, published: float
) -> None:
    """2,000 filters, each asked for 50 values that are not in it: the standard error is below 0.2 points."""
    rng = random.Random(values)
    blooms = [build([rng.randbytes(8) for _ in range(values)], size) for _ in range(2_000)]
    bits = np.array([list(bloom.bits) for bloom in blooms], np.uint8)
    hashes = np.array([bloom.hashes for bloom in blooms])

    asked = [may_contain_any(bits, hashes, [rng.randbytes(9)]).mean() for _ in range(50)]

    rate = sum(asked) / len(asked)
    assert rate <= published
    assert rate == pytest.approx(false_matches(values, size, blooms[0].hashes), rel=0.1, abs=0.0005)


@given(st.integers(1, 500), SIZES)
def test_a_value_has_as_many_bits_as_leave_half_of_them_unset(values: int, size: int) -> None:
    """Bloom's own result, rounded to one side or the other."""
    ideal = min(max(log(2) * 8 * size / values, 1), MAX_HASHES)

    assert best_hashes(values, size) in {floor(ideal), ceil(ideal)}
