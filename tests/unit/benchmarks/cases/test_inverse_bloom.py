"""The benchmark of tables of fixed size: what is said follows from what was measured."""

from pathlib import Path

from benchmarks.cases.inverse_bloom import FixedTables, Retained, Taken
from benchmarks.report import goals_of, markdown
from benchmarks.reporting.plots import plot


def result(*, per_cpu_second: float = 2e6, measured: float = 0.895) -> FixedTables:
    return FixedTables(
        ids=1000,
        taken=[
            Taken(slots=1_000, per_cpu_second=[9e6], per_second=[8e6]),
            Taken(slots=50_000, per_cpu_second=[per_cpu_second] * 3, per_second=[1e6, 2e6, 3e6]),
        ],
        slots=1_000,
        retained=[
            Retained(later=10, expected=0.99, measured=0.99),
            Retained(later=105, expected=0.9, measured=measured),
        ],
    )


def reached(of: FixedTables) -> list[bool]:
    return [goal.reached for goal in goals_of(of)]


def test_each_goal_is_reached_or_missed_by_its_own_figure() -> None:
    assert reached(result()) == [True, True]
    assert reached(result(per_cpu_second=499_999)) == [False, True]
    assert reached(result(measured=0.889)) == [True, False]
    assert reached(result(measured=0.911)) == [True, False]


def test_a_result_can_be_shown_and_drawn(tmp_path: Path) -> None:
    text = markdown(result())

    assert "| 50,000 | 1 | 2.00 M | 1.00 to 3.00 M |" in text
    assert "| 105 | 90.00% | 89.50% |" in text
    plot(result(), tmp_path / "tables.svg")
    assert (tmp_path / "tables.svg").stat().st_size > 1000
