"""What is told of a worker's results: goals computed from them, tables and plots of them."""

from pathlib import Path

import pytest

from benchmarks.cases.ageing import Ageing, AgeingPair
from benchmarks.cases.cores import CoresPair, CoreUse
from benchmarks.cases.throughput import Throughput
from benchmarks.report import Result, goals_of, tables_of
from benchmarks.reporting.plots import plot
from tests.unit.benchmarks.runs import latency, loop_run, size

THROUGHPUT = Throughput(sizes=[size(512, 0.8, 0.9, 0.86), size(128, 0.84, 0.7, 0.9)])
CORES = CoreUse(
    messages=1000,
    rounds=[
        CoresPair(
            cores=2,
            one=loop_run(messages=50_000, cpu_seconds=0.9),
            two=loop_run(messages=75_000, cpu_seconds=1.4),
        )
    ],
)
AGEING = Ageing(
    messages=1000,
    rounds=[AgeingPair(keeping=loop_run(messages=1040), ageing=loop_run(messages=1000))],
)


def told(result: Result) -> list[tuple[str, str, bool]]:
    """What was wanted and measured, and whether it is reached."""
    return [(goal.wanted, goal.measured, goal.reached) for goal in goals_of(result)]


def test_the_share_of_the_bare_loop_is_a_goal_for_each_size_from_the_smallest_on() -> None:
    assert told(THROUGHPUT) == [("≥ 85%", "84.0%", False), ("≥ 85%", "86.0%", True)]


def test_a_minute_of_a_core_is_told_with_how_often_it_passes_the_goal() -> None:
    minute, speedup = told(CORES)
    assert minute == ("≥ 2 M", "3.0 M (1.5 times as many)", True)
    assert speedup == ("≥ 1.60", "1.50", False)


def test_ageing_is_told_as_what_it_adds_to_the_cpu_time_of_a_message() -> None:
    assert told(AGEING) == [("< 5%", "4.0%", True)]


def test_latency_at_half_load_has_a_goal_of_its_own() -> None:
    *usual, half = told(latency(usual_ms=50.1, half_load_ms=99.9))
    assert usual == [("≤ 50 ms", "50.1 ms", False), ("≤ 250 ms", "50.1 ms", True)]
    assert half == ("≤ 100 ms", "99.9 ms", True)


@pytest.mark.parametrize(
    "result",
    [THROUGHPUT, CORES, AGEING, latency(usual_ms=30.0, half_load_ms=40.0)],
    ids=lambda result: type(result).__name__,
)
def test_a_result_is_drawn_and_its_tables_are_full(result: Result, tmp_path: Path) -> None:
    plot(result, tmp_path / "result.svg")
    assert (tmp_path / "result.svg").stat().st_size > 1000
    for table in tables_of(result):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
