"""A checkpoint takes a damaged store's place whole, or not at all. What it is good for: tests/faults."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.errors import DiskFull, StoreCorrupt
from dedupe_worker.store.checkpoint import make_checkpoint, restore_from_checkpoint
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.support.snapshots.volumes import small_volume
from tests.unit.worker.stores import count_known, open_store, random_ids, remember

IDENTITY = Identity(stream="shop/orders", partition=3, input_topic_id="in", output_topic_id="out")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
IDS = random_ids(1, 1000)


def with_checkpoint(root: Path) -> StateDirectory:
    """A closed store with a checkpoint at output position 1000, and ids that came later."""
    state = StateDirectory(root)
    store = open_store(state.database)
    remember(store, IDS, position=1000)
    make_checkpoint(state, IDENTITY, store, NOW)
    remember(store, random_ids(2, 500), position=1500)
    store.close()
    return state


@pytest.mark.parametrize("output", [OffsetRange(0, 1500), OffsetRange(1000, 1000)])
def test_the_copy_is_the_store_of_that_time(tmp_path: Path, output: OffsetRange) -> None:
    state = with_checkpoint(tmp_path)
    assert restore_from_checkpoint(state, IDENTITY, output)
    store = open_store(state.database)
    assert store.metadata is not None
    assert store.metadata.output_position == 1000
    assert count_known(store, IDS) == 1000
    assert count_known(store, random_ids(2, 500)) == 0
    remember(store, random_ids(3, 500), position=1600)
    store.close()

    assert restore_from_checkpoint(state, IDENTITY, output), (
        "what the copy became has not changed the checkpoint"
    )
    again = open_store(state.database)
    assert count_known(again, random_ids(3, 500)) == 0
    again.close()


def test_a_checkpoint_that_shares_the_damage_is_found_out_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later would be too late: it would be chosen again."""
    monkeypatch.setattr(
        "dedupe_worker.store.column_families._READ_AT_OPENING_IDS", 0
    )  # as in a store of millions
    state = with_checkpoint(tmp_path)
    newest = next(state.checkpoints.iterdir())
    for table in (newest / "db").glob("*.sst"):
        with table.open("r+b") as file:
            file.seek(100)
            file.write(b"\xff" * 200)
    assert restore_from_checkpoint(state, IDENTITY, OffsetRange(0, 1500))
    with pytest.raises(StoreCorrupt):
        open_store(state.database)


@pytest.mark.parametrize("output", [OffsetRange(0, 999), OffsetRange(1001, 1500)])
def test_the_output_must_hold_all_that_came_after_it(tmp_path: Path, output: OffsetRange) -> None:
    state = with_checkpoint(tmp_path)
    assert not restore_from_checkpoint(state, IDENTITY, output)
    assert state.database.exists()


def test_without_one_nothing_is_touched(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.database.mkdir()
    assert not restore_from_checkpoint(state, IDENTITY, OffsetRange(0, 10))
    assert state.database.exists()


def test_where_links_can_t_be_made_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    state = with_checkpoint(tmp_path)
    assert restore_from_checkpoint(state, IDENTITY, OffsetRange(0, 1500))
    store = open_store(state.database)
    assert count_known(store, IDS) == 1000
    store.close()


def test_without_room_the_store_stays_where_it_is(tmp_path: Path) -> None:
    with small_volume(tmp_path / "volume", 4 << 20) as volume:
        state = with_checkpoint(volume.path)
        volume.fill()
        with pytest.raises(DiskFull):
            restore_from_checkpoint(state, IDENTITY, OffsetRange(0, 1500))
        assert not state.copied.exists()
        volume.free()
        store = open_store(state.database)
        assert count_known(store, random_ids(2, 500)) == 500
        store.close()


def test_the_identity_names_the_input_topic_of_the_copy(tmp_path: Path) -> None:
    """A restore that is repeated after a crash must still know which topic the copy's offset is of."""
    state = with_checkpoint(tmp_path)
    now = IDENTITY.model_copy(update={"input_topic_id": "another"})
    state.record(now)
    restored = restore_from_checkpoint(state, now, OffsetRange(0, 1500))
    assert restored is not None
    assert restored.input_topic_id == "in"
    assert state.recorded("shop/orders", 3) == IDENTITY
