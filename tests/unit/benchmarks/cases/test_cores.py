"""How much faster two workers are than one, and could be."""

import pytest

from benchmarks.cases.cores import CoresPair, CoreUse
from benchmarks.reporting.render import goals_of
from tests.unit.benchmarks.runs import loop_run


def pair(
    *, cores: int, two_messages: int = 150, broker: float = 0.3, other: float = 0.2
) -> CoresPair:
    """One worker that does 100 messages in a second with 0.8 of a core, and two with 1.5 cores."""
    one = loop_run(messages=100, cpu_seconds=0.8)
    two = loop_run(messages=two_messages, cpu_seconds=1.5, broker=broker, other=other)
    return CoresPair(cores=cores, one=one, two=two)


def test_two_can_be_faster_as_far_as_broker_and_benchmark_leave_cores() -> None:
    assert pair(cores=2).possible_speedup == pytest.approx((2 - 0.5) / 0.8)
    assert pair(cores=2, broker=0.9, other=0.3).possible_speedup == pytest.approx(1.0)


def test_with_many_cores_two_can_be_twice_as_fast_and_not_faster() -> None:
    assert pair(cores=16).possible_speedup == 2


def test_the_wanted_speedup_is_that_share_of_the_possible_one() -> None:
    use = CoreUse(messages=100, rounds=[pair(cores=16), pair(cores=16), pair(cores=2, broker=0.9)])
    _, speedup = goals_of(use)
    assert (speedup.wanted, speedup.measured) == ("≥ 1.80", "1.50")
