"""A store is filled as the loop would do it."""

from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.scale.fill import FillPlan, Progress, fill
from benchmarks.scale.result import Filled
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.rocksdb import Store

pytestmark = pytest.mark.later  # it judges what measures

MIB = 1 << 20
CACHE_BYTES = 8 * MIB


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A store as a worker leaves it after its first start."""
    store = open_store(tmp_path / "db")
    Window(store).commit(output_position=7, input_offset=11, seen_ms=1)
    store.close()
    return tmp_path / "db"


def open_store(path: Path) -> Store:
    bounds = Bounds(max_bytes=64 * MIB, max_age=timedelta(days=28), generations=5)
    return Store(path, bounds, block_cache_bytes=CACHE_BYTES)


def filled(database: Path, known: int, count: int, max_bytes: int = 64 * MIB) -> Filled:
    plan = FillPlan(database=database, max_bytes=max_bytes, known=known, count=count)
    return fill(plan, lambda _: None)


def test_the_store_holds_each_id_once(database: Path) -> None:
    first = filled(database, 0, 40_000)
    second = filled(database, first.known, 40_000)
    assert second.repeats > 100
    assert second.known == second.keys == 80_000 - first.repeats - second.repeats


def test_the_positions_stay_those_of_the_worker(database: Path) -> None:
    filled(database, 0, 40_000)
    store = open_store(database)
    assert store.metadata is not None
    assert (store.metadata.output_position, store.metadata.input_offset) == (7, 11)
    store.close()


def test_what_ages_out_leaves_the_window_within_its_bound(database: Path) -> None:
    first = filled(database, 0, 300_000)
    aged = filled(database, first.known, 300_000, max_bytes=16 * MIB)
    assert aged.drops > 0
    assert aged.keys < 600_000 - first.repeats - aged.repeats
    assert aged.bytes < 16 * MIB + CACHE_BYTES


def test_progress_and_cost_are_told(database: Path) -> None:
    told: list[Progress] = []
    plan = FillPlan(database=database, max_bytes=64 * MIB, known=0, count=40_000)
    result = fill(plan, told.append)
    assert 0 < told[0].done <= 40_000
    assert 0 < result.lookup_seconds + result.write_seconds <= result.cpu_seconds * 1.1
    assert result.written > 40_000 * 24


def test_a_store_that_no_worker_has_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no worker"):
        filled(tmp_path / "db", 0, 1000)
