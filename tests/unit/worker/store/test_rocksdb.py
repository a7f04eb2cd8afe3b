"""The store on a disk: which lookups reach it, what damage does to it, and what it remembers of itself."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rocksdict import Options

from dedupe_ids.extract import ID_BYTES
from dedupe_worker.errors import StateLocked, StoreCorrupt
from dedupe_worker.store import column_families as store_module
from dedupe_worker.store.bloom_filter import hash_ids
from dedupe_worker.store.rocksdb_options import TableOptions, table_options
from tests.support.snapshots.damage import cut_off, files_of, flip_a_byte
from tests.unit.worker.stores import MIB, count_known, open_store, random_ids, remember

Count = Callable[[str], int]

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def statistic(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Reads one of RocksDB's counters, summed over the stores opened in the test."""
    made: list[Options] = []

    def keep(sizes: TableOptions) -> Options:
        made.append(table_options(sizes))
        return made[-1]

    def read(name: str) -> int:
        pattern = re.compile(rf"^rocksdb\.{re.escape(name)} COUNT : (\d+)$", re.MULTILINE)
        return sum(
            int(each) for one in made for each in pattern.findall(one.get_statistics() or "")
        )

    monkeypatch.setattr(store_module, "table_options", keep)
    return read


@pytest.mark.parametrize("reopened", [False, True], ids=["as written", "opened again"])
def test_lookups_of_unknown_ids_end_at_the_bloom_filters_of_the_files(
    tmp_path: Path, statistic: Count, *, reopened: bool
) -> None:
    """A filter may be in the files and never be asked: only RocksDB's own count tells."""
    store = open_store(tmp_path)
    remember(store, random_ids(1, 20_000), position=20_000)
    store.flush()
    if reopened:
        store.close()
        store = open_store(tmp_path)
    packed = random_ids(2, 20_000)
    unknown = [packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)]
    store.prepare(hash_ids(packed))  # as a transaction does that is then aborted
    assert store.lookup(unknown, hash_ids(packed)) == {}
    assert statistic("number.multiget.keys.read") == 20_000, "they never came to the files"
    assert statistic("bloom.filter.useful") > 0.98 * 20_000
    store.close()


def test_new_ids_are_kept_away_from_rocksdb(tmp_path: Path, statistic: Count) -> None:
    store = open_store(tmp_path)
    for number in range(10):
        assert remember(store, random_ids(number, 10_000), position=number + 1) == 0
    assert statistic("number.multiget.keys.read") < 0.03 * 100_000
    assert count_known(store, random_ids(3, 10_000)) == 10_000
    assert statistic("number.multiget.keys.read") >= 10_000, "the counter counts nothing"
    store.close()


def test_they_are_kept_away_from_a_store_that_was_opened_again(
    tmp_path: Path, statistic: Count
) -> None:
    store = open_store(tmp_path)
    remember(store, random_ids(1, 50_000), position=50_000)
    store.close()
    store = open_store(tmp_path)
    assert count_known(store, random_ids(2, 50_000)) == 0
    assert statistic("number.multiget.keys.read") < 0.03 * 50_000
    store.close()


@pytest.fixture
def two_generations(tmp_path: Path) -> Iterator[Path]:
    """A closed store of two generations of 20,000 ids each, from `random_ids(1…2)`."""
    store = open_store(tmp_path / "db")
    for number in (1, 2):
        now_ms = number * 6 * DAY_MS
        remember(store, random_ids(number, 20_000), position=number * 20_000, now_ms=now_ms)
        store.age(now_ms + 6 * DAY_MS)
    store.close()
    yield tmp_path / "db"
    shutil.rmtree(tmp_path / "db")


@pytest.mark.parametrize("place", [0.0, 0.2, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("file", [0, -1], ids=["oldest file", "newest file"])
def test_a_flipped_byte_is_found_when_the_store_is_opened_or_does_no_harm(
    two_generations: Path, file: int, place: float
) -> None:
    flip_a_byte(files_of(two_generations, "*.sst")[file], place)
    try:
        store = open_store(two_generations)
    except StoreCorrupt:
        return
    assert count_known(store, random_ids(1, 20_000)) == 20_000
    assert count_known(store, random_ids(2, 20_000)) == 20_000
    store.close()


def test_a_flipped_byte_among_the_ids_is_found_when_the_store_is_opened(
    two_generations: Path,
) -> None:
    flip_a_byte(files_of(two_generations, "*.sst")[0], 0.5)
    with pytest.raises(StoreCorrupt, match="rebuilt from the output topic"):
        open_store(two_generations)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "SST cut to nothing": lambda db: cut_off(files_of(db, "*.sst")[0], 0.0),
    "SST cut in half": lambda db: cut_off(files_of(db, "*.sst")[0], 0.5),
    "SST without its last byte": lambda db: cut_off(files_of(db, "*.sst")[-1], 0.99999),
    "SST missing": lambda db: files_of(db, "*.sst")[0].unlink(),
    "MANIFEST cut to nothing": lambda db: cut_off(files_of(db, "MANIFEST-*")[0], 0.0),
    "MANIFEST flipped": lambda db: flip_a_byte(files_of(db, "MANIFEST-*")[0], 0.5),
    "MANIFEST missing": lambda db: files_of(db, "MANIFEST-*")[0].unlink(),
    "CURRENT missing": lambda db: (db / "CURRENT").unlink(),
    "CURRENT empty": lambda db: (db / "CURRENT").write_bytes(b""),
    "CURRENT of another file": lambda db: (db / "CURRENT").write_bytes(b"MANIFEST-999999\n"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(two_generations: Path, name: str) -> None:
    DAMAGES[name](two_generations)
    with pytest.raises(
        StoreCorrupt, match=r"(?s)opening the store: .*rebuilt from the output topic"
    ):
        open_store(two_generations)


@pytest.mark.parametrize("kept", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_manifest_that_was_cut_off_makes_it_older_or_is_damage(
    two_generations: Path, kept: float
) -> None:
    cut_off(files_of(two_generations, "MANIFEST-*")[0], kept)
    try:
        store = open_store(two_generations)
    except StoreCorrupt:
        return
    position = store.metadata.output_position if store.metadata else 0
    known = [count_known(store, random_ids(number, 20_000)) for number in (1, 2)]
    for number in (1, 2):
        if position >= number * 20_000:
            assert known[number - 1] == 20_000, "it claims to be complete, and is not"
    store.close()


def test_a_damaged_store_can_be_replaced_at_once_by_a_new_one(two_generations: Path) -> None:
    flip_a_byte(files_of(two_generations, "*.sst")[-1], 0.5)
    with pytest.raises(StoreCorrupt) as damage:
        open_store(two_generations)
    shutil.rmtree(two_generations)
    open_store(two_generations).close()
    assert damage.value.__traceback__, "as shown to users, the error outlives the store"


def test_ids_are_forgotten_in_whatever_generation_they_are(two_generations: Path) -> None:
    store = open_store(two_generations)
    for number in (1, 2):
        packed = random_ids(number, 20_000)
        unknown = random_ids(3, 1)
        assert store.forget([packed[:16], packed[-16:], unknown]) == 2
        assert count_known(store, packed) == 19_998
    store.close()
    store = open_store(two_generations)
    assert count_known(store, random_ids(1, 20_000)) == count_known(store, random_ids(2, 20_000))
    assert count_known(store, random_ids(2, 20_000)) == 19_998
    store.close()


def test_a_store_is_of_one_process_at_a_time(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(StateLocked, match="stop the other process"):
        open_store(tmp_path)
    store.close()


def test_it_remembers_over_a_close_that_its_window_was_shortened(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    remember(store, random_ids(1, 10), position=10)
    assert store.metadata is not None
    assert not store.metadata.truncated
    store.mark_truncated()
    remember(store, random_ids(2, 10), position=20)
    store.close()
    store = open_store(tmp_path)
    assert store.metadata is not None
    assert store.metadata.truncated
    store.close()


def test_giving_ids_up_for_size_shortens_the_window_and_for_age_does_not(tmp_path: Path) -> None:
    store = open_store(tmp_path / "aged")
    for day in range(60):
        remember(store, random_ids(day, 10), position=day + 1, now_ms=day * DAY_MS)
        store.age(day * DAY_MS)
    assert store.metadata is not None
    assert not store.metadata.truncated
    assert 28 * 86_400 <= store.window_seconds(59 * DAY_MS) <= 36 * 86_400
    assert count_known(store, random_ids(0, 10)) == 0
    assert count_known(store, random_ids(59 - 27, 10)) == 10
    store.close()

    store = open_store(tmp_path / "full", max_bytes=MIB)
    for number in range(10):
        remember(store, random_ids(number, 10_000), position=number + 1)
        store.age(0)
    assert store.metadata is not None
    assert store.metadata.truncated
    assert count_known(store, random_ids(0, 10_000)) == 0
    assert count_known(store, random_ids(9, 10_000)) == 10_000
    store.close()
