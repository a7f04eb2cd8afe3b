"""What a kill and a power loss leave of a volume."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from dedupe_worker.store.state_dir import StateDirectory, sync_to_disk, write_atomically
from tests.simulation.disk import Volume


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path / "home", "p0")


def after_power_losses(volume: Volume, read: Callable[[Path], object]) -> set[object]:
    """Return what different power losses leave."""
    found: set[object] = set()
    for seed in range(30):
        left = volume.after_power_loss(Random(seed))
        found.add(read(left.path))
        left.delete()
    return found


def text_of(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        file = path / name
        return file.read_text() if file.exists() else None

    return read


def test_a_kill_keeps_what_was_written(volume: Volume) -> None:
    (volume.path / "file").write_text("new")
    left = volume.after_kill()
    (volume.path / "file").write_text("written by a dead process")
    assert text_of("file")(left.path) == "new"


def test_a_power_loss_may_drop_or_tear_what_was_not_synced(volume: Volume) -> None:
    (volume.path / "file").write_text("new")
    found = after_power_losses(volume, text_of("file"))
    assert {None, ""} <= found
    assert all(each is None or "new".startswith(str(each)) for each in found)


def test_a_power_loss_keeps_what_was_synced_with_its_name(volume: Volume) -> None:
    write_atomically(volume.path / "file", "new")
    assert after_power_losses(volume, text_of("file")) == {"new"}
    write_atomically(volume.path / "file", "newer")
    assert after_power_losses(volume, text_of("file")) == {"newer"}


def test_a_power_loss_brings_back_a_file_that_was_replaced_without_a_sync(volume: Volume) -> None:
    write_atomically(volume.path / "file", "old")
    other = volume.path / "other"
    other.write_text("new")
    sync_to_disk(other)
    other.replace(volume.path / "file")
    assert after_power_losses(volume, text_of("file")) == {"old", "new"}
    sync_to_disk(volume.path)
    assert after_power_losses(volume, text_of("file")) == {"new"}


def test_a_power_loss_brings_back_a_tree_that_was_deleted_without_a_sync(volume: Volume) -> None:
    database = volume.path / "db"
    database.mkdir()
    write_atomically(database / "file", "old")
    sync_to_disk(volume.path)
    shutil.rmtree(database)
    assert after_power_losses(volume, text_of("db/file")) == {"old", None}
    sync_to_disk(volume.path)
    assert after_power_losses(volume, text_of("db/file")) == {None}


def test_a_second_power_loss_still_undoes_what_the_first_process_left_unsynced(
    volume: Volume,
) -> None:
    (volume.path / "file").write_text("new")
    killed = volume.after_kill()
    volume.delete()
    assert None in after_power_losses(killed, text_of("file"))


def test_a_discarded_store_does_not_come_back(volume: Volume) -> None:
    state = StateDirectory(volume.path)
    state.database.mkdir()
    write_atomically(state.database / "CURRENT", "store")
    sync_to_disk(state.root)
    state.discard_store()
    assert after_power_losses(volume, text_of("db/CURRENT")) == {None}
