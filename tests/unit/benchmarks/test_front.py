"""The benchmark of a table ahead of RocksDB, at a size at which its figures mean nothing."""

from pathlib import Path

from benchmarks.front import RATES, front_table, measure_front


def test_both_stores_find_the_same_repeats(tmp_path: Path) -> None:
    told: list[str] = []
    runs = measure_front(
        known=200_000, messages=20_000, rounds=1, directory=tmp_path, tell=told.append
    )
    assert [run.rate for run in runs] == list(RATES)
    assert all(run.without > 0 and run.with_front > 0 for run in runs)
    assert all(run.missed == 0 for run in runs)
    assert len(told) == 2 + len(RATES), "two stores are filled, and each rate has one round"
    assert len(front_table(runs).rows) == len(RATES)
    assert list(tmp_path.iterdir()) == []
