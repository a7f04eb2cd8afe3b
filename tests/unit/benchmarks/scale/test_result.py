"""Figures that follow from results."""

import pytest

from tests.unit.benchmarks.scale.results import MIB, filled, rung, scale


def test_memory_is_a_line_over_the_ids() -> None:
    base, per_id = scale().memory_line()
    assert base == pytest.approx(200 * MIB)
    assert per_id == pytest.approx(2.0)


def test_write_amplification_is_over_all_fills() -> None:
    first = rung(1_000_000, filled=filled(ids=1_000_000, written=48_000_000))
    second = rung(4_000_000, filled=filled(ids=3_000_000, written=288_000_000))
    assert first.filled.write_amplification == 2.0
    assert scale(first, second).write_amplification == 3.5
