"""What is said of chunk filters follows from what was measured."""

from pathlib import Path

from benchmarks.cases.filters import Filters, Gap, Rate, Read, Skipping
from benchmarks.cases.filters_spark import OURS, THEIRS, SparkRead
from benchmarks.report import goals_of, markdown
from benchmarks.reporting.plots import plot


def skipping(chunk: int, fetched: int, seconds: float) -> Skipping:
    return Skipping(
        chunk_records=chunk,
        everything=[Read(records=100, seconds=8.0, fetched_bytes=1_000_000)] * 2,
        skipping=[Read(records=100, seconds=seconds, fetched_bytes=fetched)] * 2,
    )


def result(
    *, measured: float = 0.01, fetched: int = 100_000, seconds: float = 1.0, cpu: float = 10.0
) -> Filters:
    return Filters(
        messages=1000,
        rates=[Rate(values=10, size_bytes=16, published=0.02, expected=0.002, measured=measured)],
        sizes=[
            skipping(1_000, 900_000, 9.0),
            skipping(10_000, fetched, seconds),
            skipping(100_000, 900_000, 9.0),
        ],
        gaps=[
            Gap(offsets=50, fetched_ms=1.0, skipped_ms=2.0),
            Gap(offsets=500, fetched_ms=3.0, skipped_ms=2.0),
        ],
        spark=[
            SparkRead(what=what, records=1000, seconds=1.0, cpu_seconds=seconds)
            for what, seconds in ((OURS, cpu), (THEIRS, 10.0))
        ],
    )


def reached(of: Filters) -> list[bool]:
    return [goal.reached for goal in goals_of(of)]


def test_each_goal_is_reached_or_missed_by_its_own_figure() -> None:
    assert reached(result()) == [True, True, True, True]
    assert reached(result(measured=0.03)) == [False, True, True, True]
    assert reached(result(fetched=201_000)) == [True, False, True, True]
    assert reached(result(seconds=2.1)) == [True, True, False, True]
    assert reached(result(cpu=13.1)) == [True, True, True, False]


def test_a_result_can_be_shown_and_drawn(tmp_path: Path) -> None:
    text = markdown(result())

    assert "| 10,000 | 1.0 | 0.1 | 90.0% | 8.00 | 1.00 | 8.0 |" in text
    plot(result(), tmp_path / "filters.svg")
    assert (tmp_path / "filters.svg").stat().st_size > 1000
