"""However often an opening fails or is killed, each id is read once to find damage."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dedupe_ids.extract import ID_BYTES
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.errors import StoreCorrupt
from dedupe_worker.store import column_families, generation
from dedupe_worker.store.checkpoint import (
    distrust_checkpoint,
    make_checkpoint,
    restore_from_checkpoint,
)
from dedupe_worker.store.column_families import UNTRUSTED
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.support.snapshots.damage import files_of, flip_a_byte
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import count_known, open_store, random_ids, remember

DAY_MS = 24 * 3600 * 1000
IDS = 20_000
IDENTITY = Identity(stream="shop/orders", partition=0, input_topic_id="in", output_topic_id="out")


class Killed(BaseException):
    """The process ends."""


class Reads:
    """Counts the ids that are read, and kills the process after so many."""

    def __init__(self) -> None:
        self.ids = 0
        self.left = 1 << 40

    def watch(self, real: Callable[..., Iterator[bytes]]) -> Callable[..., Iterator[bytes]]:
        def packed_keys(*given: Any) -> Iterator[bytes]:  # noqa: ANN401 (as the real one's)
            for piece in real(*given):
                self.ids += len(piece) // ID_BYTES
                if self.ids > self.left:
                    raise Killed
                yield piece

        return packed_keys


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found = Reads()
    monkeypatch.setattr(column_families, "_READ_AT_OPENING_IDS", 0)
    monkeypatch.setattr(generation, "packed_keys", found.watch(generation.packed_keys))
    return found


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A store of two generations, which is not trusted."""
    store = open_store(tmp_path / "db")
    for number in (1, 2):
        remember(store, random_ids(number, IDS), position=number * IDS, now_ms=number * 6 * DAY_MS)
        if number == 1:
            store.age(12 * DAY_MS)
    assert len(store.positions()) == 2
    store.close()
    (tmp_path / "db" / UNTRUSTED).touch()
    return tmp_path / "db"


def test_damage_that_was_found_is_not_looked_for_again(closed: Path, reads: Reads) -> None:
    flip_a_byte(files_of(closed, "*.sst")[-1], 0.5)
    with pytest.raises(StoreCorrupt):
        open_store(closed)
    assert reads.ids
    reads.ids = 0
    with pytest.raises(StoreCorrupt, match="found it damaged"):
        open_store(closed)
    assert reads.ids == 0


def test_an_opening_that_is_killed_is_continued(closed: Path, reads: Reads) -> None:
    reads.left = IDS + 1
    with pytest.raises(Killed):
        open_store(closed)
    reads.ids, reads.left = 0, 1 << 40
    store = open_store(closed)
    assert reads.ids == IDS, "the first generation was read before"
    assert [count_known(store, random_ids(number, IDS)) for number in (1, 2)] == [IDS, IDS]
    store.close()


def test_damage_met_later_distrusts_what_was_read_before(closed: Path, reads: Reads) -> None:
    reads.left = IDS + 1
    with pytest.raises(Killed):
        open_store(closed)
    reads.ids, reads.left = 0, 1 << 40
    families = column_families.ColumnFamilies(
        closed, generation_bytes=1, block_cache_bytes=1, clock=StillClock()
    )
    with pytest.raises(StoreCorrupt), families.errors("reading the store"):
        raise StoreCorrupt("damaged")
    open_store(closed).close()
    assert reads.ids == 2 * IDS


def test_a_store_that_was_read_is_trusted_after_a_power_cut_too(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == closed:
            synced.append((closed / UNTRUSTED).exists())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    open_store(closed).close()
    assert synced
    assert not synced[-1]


def test_a_damaged_checkpoint_is_copied_and_read_once(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    store = open_store(state.database)
    remember(store, random_ids(1, 100), position=100)
    made = make_checkpoint(state, IDENTITY, store, StillClock().now())
    store.close()
    distrust_checkpoint(state)
    assert restore_from_checkpoint(state, IDENTITY, OffsetRange(0, 100)) is None
    assert made is not None
    assert (Path(made.path) / "db").exists()
