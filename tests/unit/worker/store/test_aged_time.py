"""The time by which ids age is on disk with the store, also if nothing was written since."""

import shutil
from pathlib import Path

import pytest

from dedupe_worker.store.api import IdStore
from tests.golden.stores import open_store, open_table
from tests.unit.worker.stores import random_ids, remember

DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize("kind", ["RocksDB", "InverseBloom"])
@pytest.mark.parametrize("written_by", ["flush", "checkpoint"])
def test_the_time_that_ids_have_aged_at_rest_survives_a_kill(
    tmp_path: Path, kind: str, written_by: str
) -> None:
    def opened(path: Path) -> IdStore:
        return open_store(path) if kind == "RocksDB" else open_table(path, 1024, 8)

    store, left = opened(tmp_path / "db"), tmp_path / "left"
    remember(store, random_ids(1, 10), position=10, now_ms=DAY_MS)
    store.age(9 * DAY_MS)
    if written_by == "flush":
        store.flush()
        shutil.copytree(tmp_path / "db", left)
    else:
        store.checkpoint(left)
    store.close()
    after = opened(left)
    assert after.aged_ms == 9 * DAY_MS
    assert after.window_seconds(after.aged_ms) == pytest.approx(8 * DAY_MS / 1000)
    after.close()
