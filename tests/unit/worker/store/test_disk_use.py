"""The window's bound is one of real bytes on the disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from dedupe_worker.store.checkpoint import make_checkpoint
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.unit.worker.stores import MIB, count_known, open_store, random_ids, remember

IDENTITY = Identity(stream="shop/orders", partition=3, input_topic_id="in", output_topic_id="out")
NOW = datetime(2026, 11, 21, tzinfo=UTC)
MAX_BYTES = 16 * MIB
BATCH_IDS = 5_000
ID_DISK_BYTES = 36
GENERATIONS = 5


class DiskUse:
    """The most that a directory took, file by file; a file with several names counts once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.peak_bytes = 0

    def sample(self) -> None:
        files: dict[int, int] = {}
        for directory, _, names in os.walk(self._root):
            for name in names:
                try:
                    found = (Path(directory) / name).stat()
                except FileNotFoundError:  # RocksDB has deleted it meanwhile
                    continue
                files[found.st_ino] = found.st_size
        self.peak_bytes = max(self.peak_bytes, sum(files.values()))


@contextmanager
def watched(root: Path) -> Iterator[DiskUse]:
    """Sample all the time, so that what stands only while RocksDB compacts is seen too."""
    use, stop = DiskUse(root), Event()

    def run() -> None:
        while not stop.wait(0.02):
            use.sample()

    thread = Thread(target=run)
    thread.start()
    try:
        yield use
    finally:
        stop.set()
        thread.join()


def test_disk_use_stays_within_its_bound_while_ids_age_out(tmp_path: Path) -> None:
    """The window filled twice over, and then once more beside a checkpoint of it."""
    state = StateDirectory(tmp_path)
    store = open_store(state.database, max_bytes=MAX_BYTES, generations=GENERATIONS)
    full = MAX_BYTES // (BATCH_IDS * ID_DISK_BYTES)  # batches

    def fill(batches: range) -> float:
        with watched(tmp_path) as use:
            for number in batches:
                assert remember(store, random_ids(number, BATCH_IDS), position=number + 1) == 0
                store.age(0)
                use.sample()
        return use.peak_bytes / MAX_BYTES

    alone = fill(range(2 * full))
    # On a machine with much to do, a generation that RocksDB compacts may stand beside its successor.
    assert 0.8 < alone < 1.1 + 1 / GENERATIONS
    assert make_checkpoint(state, IDENTITY, store, NOW)
    assert alone < fill(range(2 * full, 3 * full)) < 2.1

    assert count_known(store, random_ids(0, BATCH_IDS)) == 0
    assert count_known(store, random_ids(3 * full - 1, BATCH_IDS)) == BATCH_IDS
    remembered = sum(each.keys for each in store.generations())
    assert remembered * ID_DISK_BYTES > 0.7 * MAX_BYTES, "it gave up more than it had to"
    store.close()
