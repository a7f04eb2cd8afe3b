"""A checkpoint is whole or not there, and can be opened as a store."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dedupe_worker.errors import DiskFull
from dedupe_worker.store import checkpoint
from dedupe_worker.store.checkpoint import CheckpointRecord, make_checkpoint, remove_unfinished
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.unit.worker.stores import count_known, open_store, random_ids, remember

IDENTITY = Identity(stream="shop/orders", partition=3, input_topic_id="in", output_topic_id="out")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path)


@pytest.fixture
def store(state: StateDirectory) -> Iterator[Store]:
    opened = open_store(state.database)
    yield opened
    opened.close()


def test_it_holds_what_the_store_held_when_it_was_made(state: StateDirectory, store: Store) -> None:
    remember(store, random_ids(1, 1000), position=1500, now_ms=int(NOW.timestamp() * 1000))
    made = make_checkpoint(state, IDENTITY, store, NOW + timedelta(seconds=90))
    remember(store, random_ids(2, 1000), position=2500)
    assert made is not None
    copy = open_store(Path(made.path) / "db")
    assert count_known(copy, random_ids(1, 1000)) == 1000
    assert count_known(copy, random_ids(2, 1000)) == 0
    copy.close()


def test_it_says_what_it_is(state: StateDirectory, store: Store) -> None:
    remember(store, random_ids(1, 1000), position=1500, now_ms=int(NOW.timestamp() * 1000))
    store.age(int(NOW.timestamp() * 1000) + 90_000)
    made = make_checkpoint(state, IDENTITY, store, NOW + timedelta(seconds=90))
    assert made is not None
    text = (Path(made.path) / "checkpoint.json").read_text()
    files = list((Path(made.path) / "db").iterdir())
    assert CheckpointRecord.model_validate_json(text) == CheckpointRecord(
        stream="shop/orders",
        partition=3,
        input_topic_id="in",
        output_topic_id="out",
        input_offset=1500,
        output_position=1500,
        keys=1000,
        window_seconds=90.0,
        bytes=sum(each.stat().st_size for each in files),
        created=NOW + timedelta(seconds=90),
    )
    assert {"outputPosition", "inputOffset", "windowSeconds"} <= json.loads(text).keys()
    assert (made.output_position, made.input_offset, made.keys) == (1500, 1500, 1000)
    assert (made.input_topic_id, made.output_topic_id) == ("in", "out")
    assert (made.window_seconds, made.bytes) == (90.0, sum(each.stat().st_size for each in files))


def test_its_window_is_of_the_clock_by_which_ids_age(state: StateDirectory, store: Store) -> None:
    """The wall clock also counts the time of a stop."""
    remember(store, random_ids(1, 1000), position=1500, now_ms=int(NOW.timestamp() * 1000))
    store.age(int(NOW.timestamp() * 1000) + 90_000)
    made = make_checkpoint(state, IDENTITY, store, NOW + timedelta(days=7))
    assert made is not None
    assert made.window_seconds == 90.0


def test_an_empty_store_has_none(state: StateDirectory, store: Store) -> None:
    assert make_checkpoint(state, IDENTITY, store, NOW) is None
    assert not state.checkpoints.exists()


def test_it_outlasts_a_power_cut(
    state: StateDirectory, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB syncs the files; here it is seen that each name on the way to them is on disk, in its order."""
    remember(store, random_ids(1, 1000), position=1500)
    synced: list[tuple[Path, set[str]]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path, {each.name for each in path.iterdir()} if path.is_dir() else set()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    made = make_checkpoint(state, IDENTITY, store, NOW)
    assert made is not None
    final = Path(made.path)
    unfinished = final.with_name(f"{final.name}.unfinished")
    directories = [(path, names) for path, names in synced if names]
    assert directories[0] == (unfinished, {"checkpoint.json", "db"})
    assert directories[1] == (state.checkpoints, {final.name})
    assert directories[2][0] == state.root
    assert unfinished / "checkpoint.json.tmp" in [path for path, _ in synced]


def test_only_the_newest_is_kept(state: StateDirectory, store: Store) -> None:
    for number in range(3):
        remember(store, random_ids(number, 100), position=100 * (number + 1))
        made = make_checkpoint(state, IDENTITY, store, NOW + timedelta(microseconds=number))
    assert made is not None
    assert [str(each) for each in state.checkpoints.iterdir()] == [made.path]


def test_one_that_fails_leaves_the_one_before_and_the_store_at_work(
    state: StateDirectory, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(store, random_ids(1, 100), position=100)
    before = make_checkpoint(state, IDENTITY, store, NOW)
    assert before is not None

    def full(path: Path, _: str) -> None:
        raise DiskFull(str(path))

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_atomically", full)
        with pytest.raises(DiskFull):
            make_checkpoint(state, IDENTITY, store, NOW + timedelta(hours=1))
    assert (Path(before.path) / "checkpoint.json").exists()
    unfinished = [each for each in state.checkpoints.iterdir() if str(each) != before.path]
    assert [each.suffix for each in unfinished] == [".unfinished"]

    remember(store, random_ids(2, 100), position=200)
    assert make_checkpoint(state, IDENTITY, store, NOW + timedelta(hours=2)) is not None
    assert len(list(state.checkpoints.iterdir())) == 1


def test_what_a_crash_left_is_cleared_away_and_nothing_else(state: StateDirectory) -> None:
    for name in ("20261121T120000.000000Z", "20261121T130000.000000Z.unfinished"):
        (state.checkpoints / name / "db").mkdir(parents=True)
    remove_unfinished(state)
    assert [each.name for each in state.checkpoints.iterdir()] == ["20261121T120000.000000Z"]
