"""What is said of job `aggregate` follows from what was measured."""

from pathlib import Path

from benchmarks.cases.aggregate import Aggregated, AggregateRun
from benchmarks.report import goals_of, markdown
from benchmarks.reporting.plots import plot


def run(batch: int, seconds: float) -> AggregateRun:
    return AggregateRun(
        batch=batch, rows=50, seconds=seconds, spark_cpu_seconds=seconds * 2, postgres_cpu_seconds=1
    )


def test_a_result_can_be_shown_and_drawn(tmp_path: Path) -> None:
    found = Aggregated(
        records=1000, runs=[run(100, 9), run(1000, 2), run(100, 10), run(1000, 4), run(100, 11)]
    )

    text = markdown(found)

    assert "1,000 flights into 50 rows" in text
    assert "| 100 | 10.0 | 100 | 20.0 | 1.0 | 50 |" in text
    assert "| 1,000 | 3.0 | 333 | 6.0 | 1.0 | 167 |" in text
    assert goals_of(found) == []
    plot(found, tmp_path / "aggregate.svg")
    assert (tmp_path / "aggregate.svg").stat().st_size > 1000
