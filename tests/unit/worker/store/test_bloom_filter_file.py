"""A large store is opened by the filters that were kept beside it, or reads its ids into new ones while it works."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dedupe_worker.errors import StoreCorrupt
from dedupe_worker.store import column_families as store_module
from dedupe_worker.store import generation as open_generation
from dedupe_worker.store.bloom_filter import hash_ids
from dedupe_worker.store.column_families import UNTRUSTED
from dedupe_worker.store.rocksdb import Store
from tests.support.snapshots.damage import cut_off, files_of, flip_a_byte
from tests.unit.worker.stores import count_known, open_store, random_ids, remember

DAY_MS = 24 * 3600 * 1000
IDS = 20_000


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each store with an id is one that is not read when it is opened."""
    monkeypatch.setattr(store_module, "_READ_AT_OPENING_IDS", 0)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A closed store of two generations of 20,000 ids each, from `random_ids(1…2)`."""
    store = open_store(tmp_path / "db")
    for number in (1, 2):
        now_ms = number * 6 * DAY_MS
        store.age(now_ms)
        remember(store, random_ids(number, IDS), position=number * IDS, now_ms=now_ms)
    assert len(store.generations()) == 2
    store.close()
    return tmp_path / "db"


def suspected(store: Store, seed: int) -> float:
    return float(store.suspects(hash_ids(random_ids(seed, IDS))).mean())


def assert_remembers(store: Store) -> None:
    assert [count_known(store, random_ids(number, IDS)) for number in (1, 2, 3)] == [IDS, IDS, 0]


def refill(store: Store) -> None:
    while store.refill(seconds=0.001):
        pass


def test_no_id_is_read_when_it_is_opened(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("it reads the ids")

    monkeypatch.setattr(open_generation, "packed_keys", unexpected)
    store = open_store(closed)
    assert not store.refill(seconds=0)
    assert suspected(store, 99) < 0.05
    assert_remembers(store)
    store.close()


LOST: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda file: cut_off(file, 0.0),
    "cut in half": lambda file: cut_off(file, 0.5),
    "without its last byte": lambda file: cut_off(file, 1.0),
    "its head damaged": lambda file: flip_a_byte(file, 0.0),
    "its stamp damaged": lambda file: file.write_bytes(
        file.read_bytes()[:20] + b"\xee" + file.read_bytes()[21:]
    ),
    "its sizes damaged": lambda file: file.write_bytes(
        file.read_bytes()[:55] + b"\xee" + file.read_bytes()[56:]
    ),
    "its words damaged": lambda file: flip_a_byte(file, 0.5),
    "its checksum damaged": lambda file: flip_a_byte(file, 1.0),
}


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("generation", [0, 1])
def test_a_filter_that_is_lost_is_made_again_and_until_then_nothing_is_missed(
    closed: Path, generation: int, name: str
) -> None:
    LOST[name](files_of(closed, "*.prefilter")[generation])
    store = open_store(closed)
    assert suspected(store, 99) == 1, "it has no filter that says no"
    assert_remembers(store)
    assert store.refill(seconds=0), "it is done in one step, so the next lines test nothing"
    assert_remembers(store)
    refill(store)
    assert suspected(store, 99) < 0.05
    assert_remembers(store)
    store.close()


def test_ids_that_come_while_a_filter_is_made_again_are_in_it(closed: Path) -> None:
    for file in files_of(closed, "*.prefilter"):
        file.unlink()
    store, seed = open_store(closed), 10
    more = True
    while more:
        remember(store, random_ids(seed, 1_000), position=3 * IDS + seed)
        seed += 1
        more = store.refill(seconds=0)
    assert seed > 12
    assert all(count_known(store, random_ids(s, 1_000)) == 1_000 for s in range(10, seed))
    assert_remembers(store)
    store.close()


def test_a_crash_leaves_no_filter_of_what_was_written_since(closed: Path) -> None:
    store = open_store(closed)
    remember(store, random_ids(4, IDS), position=3 * IDS, now_ms=12 * DAY_MS)
    store.flush()
    shutil.copytree(closed, closed.with_name("killed"))
    store.close()
    store = open_store(closed.with_name("killed"))
    assert suspected(store, 99) == 1
    assert count_known(store, random_ids(4, IDS)) == IDS
    refill(store)
    assert_remembers(store)
    assert count_known(store, random_ids(4, IDS)) == IDS
    store.close()


def test_an_id_added_to_an_older_generation_is_found_after_a_crash(closed: Path) -> None:
    """One more and one less: the stamp is the same as before."""
    store = open_store(closed)
    [oldest, _] = store.generations()
    [added, removed] = random_ids(5, 1), random_ids(1, 1)
    store.amend(oldest.name, added=[added], removed=[removed])
    store.flush_all()
    shutil.copytree(closed, closed.with_name("killed"))
    store.close()
    store = open_store(closed.with_name("killed"))
    assert count_known(store, added) == 1
    refill(store)
    assert count_known(store, added) == 1
    store.close()


@pytest.mark.parametrize("changed", ["added and removed", "forgotten"])
def test_a_filter_of_before_a_change_is_not_used_even_if_the_stamp_is_the_same(
    closed: Path, changed: str
) -> None:
    """The deletion of its file was lost with the power, or an earlier release has left the file."""
    before = {file: file.read_bytes() for file in files_of(closed, "*.prefilter")}
    store = open_store(closed)
    [oldest, _] = store.generations()
    [added, removed] = random_ids(5, 1), random_ids(1, 1)
    if changed == "forgotten":
        assert store.forget([removed]) == 1
        store.amend(oldest.name, added=[added])
    else:
        store.amend(oldest.name, added=[added], removed=[removed])
    store.close()
    for file, content in before.items():
        file.write_bytes(content)
    store = open_store(closed)
    assert [count_known(store, each) for each in (added, removed)] == [1, 0]
    store.close()


def test_a_filter_of_a_changed_generation_is_kept_and_unknown_to_the_release_before(
    closed: Path,
) -> None:
    store = open_store(closed)
    [oldest, _] = store.generations()
    store.amend(oldest.name, added=[random_ids(5, 1)], removed=[random_ids(1, 1)])
    store.close()
    assert [file.read_bytes()[:8] for file in files_of(closed, "*.prefilter")] == [
        b"DDFILT03",
        b"DDFILT02",
    ]
    store = open_store(closed)
    assert suspected(store, 99) < 0.05
    assert count_known(store, random_ids(5, 1)) == 1
    store.close()


def test_ids_that_a_crash_brings_back_are_found(closed: Path) -> None:
    """They were forgotten, and a filter was made without them, but none of that was flushed."""
    for file in files_of(closed, "*.prefilter"):
        file.unlink()
    store = open_store(closed)
    back = random_ids(1, 1)
    assert store.forget([back]) == 1
    refill(store)
    shutil.copytree(closed, closed.with_name("killed"))
    store.close()
    store = open_store(closed.with_name("killed"))
    assert count_known(store, back) == 1
    store.close()


def test_a_filter_is_kept_as_long_as_its_generation(closed: Path) -> None:
    store = open_store(closed)
    remember(store, random_ids(4, 10), position=3 * IDS, now_ms=35 * DAY_MS)
    store.age(35 * DAY_MS)
    names = [generation.name for generation in store.generations()]
    assert "g00000001" not in names
    store.close()
    assert {file.stem for file in closed.glob("*.prefilter*")} <= set(names)


def test_filters_are_counted_as_bytes_of_the_window(closed: Path) -> None:
    store = open_store(closed)
    files = [
        sum(file.stat().st_size for file in closed.glob(pattern))
        for pattern in ("*.sst", "*.prefilter")
    ]
    counted = sum(generation.size_bytes for generation in store.generations())
    assert counted == pytest.approx(sum(files), rel=0.02)
    assert files[1] > 0.03 * files[0], "the filters weigh too little for the line above to tell"
    store.close()


def test_damage_that_is_met_later_is_found_by_the_next_opening(closed: Path) -> None:
    flip_a_byte(files_of(closed, "*.sst")[0], 0.5)
    store = open_store(closed)
    with pytest.raises(StoreCorrupt, match="reading the store"):
        count_known(store, random_ids(1, IDS))
    store.close()
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="opening the store"):
            open_store(closed)


def test_damage_is_met_when_a_filter_is_made_again(closed: Path) -> None:
    flip_a_byte(files_of(closed, "*.sst")[0], 0.5)
    files_of(closed, "*.prefilter")[0].unlink()
    store = open_store(closed)
    with pytest.raises(StoreCorrupt, match="reading the store"):
        refill(store)
    store.close()
    with pytest.raises(StoreCorrupt, match="opening the store"):
        open_store(closed)


def test_a_store_that_was_not_trusted_is_read_once_and_then_is(closed: Path) -> None:
    (closed / UNTRUSTED).touch()
    for file in files_of(closed, "*.prefilter"):
        file.unlink()
    store = open_store(closed)
    assert not store.refill(seconds=0), "every id was read"
    assert_remembers(store)
    store.close()
    assert not (closed / UNTRUSTED).exists()


@pytest.mark.parametrize("read_at_opening", [0, 1_000_000])
def test_a_window_is_as_large_after_a_restart_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_at_opening: int
) -> None:
    """Else the next ageing would give a generation up that had room before."""
    monkeypatch.setattr(store_module, "_READ_AT_OPENING_IDS", read_at_opening)
    store = open_store(tmp_path / "db")
    for number in (1, 2, 3):
        store.age(number * 6 * DAY_MS)
        remember(store, random_ids(number, 500), position=number, now_ms=number * 6 * DAY_MS)
    before = [generation.size_bytes for generation in store.generations()[:-1]]
    store.close()
    for kept in (tmp_path / "db").glob("*.prefilter"):
        kept.unlink()

    store = open_store(tmp_path / "db")
    refill(store)
    assert [generation.size_bytes for generation in store.generations()[:-1]] == before
    store.close()
