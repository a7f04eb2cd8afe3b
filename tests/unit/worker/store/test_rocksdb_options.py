"""What an id takes on the disk, and how often it is written."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from dedupe_worker.dedup.window import Window
from dedupe_worker.values import encode_owners
from tests.unit.worker.stores import MIB, open_store

BATCH_IDS = 2_000
BATCHES = 150


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of 300,000 ids in one generation, with owners as they come."""
    path = tmp_path_factory.mktemp("filled")
    store = open_store(path, max_bytes=64 * MIB)
    window, random = Window(store), Random(1)
    for number in range(BATCHES):
        offsets = np.arange(number * BATCH_IDS, (number + 1) * BATCH_IDS, dtype=np.uint64)
        window.admit(random.randbytes(16 * BATCH_IDS), encode_owners(3, offsets))
        end = (number + 1) * BATCH_IDS
        window.commit(output_position=end, input_offset=end, seen_ms=1)
        store.age(1)
    assert len(store.generations()) == 1
    store.close()
    return path


def size(directory: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in directory.glob(pattern))


def test_an_id_with_its_owner_takes_less_than_30_bytes_of_disk(filled: Path) -> None:
    assert size(filled, "*.sst") < 28 * BATCHES * BATCH_IDS


def test_files_are_merged_before_a_lookup_has_many_to_ask(filled: Path) -> None:
    assert len(list(filled.glob("*.sst"))) < 60, "of more than a hundred that were flushed"
