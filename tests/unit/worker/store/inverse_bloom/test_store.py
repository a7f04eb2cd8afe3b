"""The store as a worker uses it: what it knows after commits, crashes, checkpoints and changes of its size."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from dedupe_ids.extract import ID_BYTES
from dedupe_worker.dedup.ageing_clock import AgeingClock
from dedupe_worker.dedup.window import Window
from dedupe_worker.errors import NotComparable, StoreCorrupt
from dedupe_worker.store.bloom_filter import hash_ids
from dedupe_worker.store.column_families import UNTRUSTED
from dedupe_worker.store.inverse_bloom.segments import MANIFEST
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore
from dedupe_worker.store.inverse_bloom.table import Table
from dedupe_worker.values import encode_owner
from tests.support.snapshots.damage import cut_off, files_of, flip_a_byte
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.store.inverse_bloom.scene import DAY_MS, SLOTS, open_store, small_segments
from tests.unit.worker.stores import OWNER, count_known, random_ids, remember
from tests.unit.worker.strategies import packed_id

SIZES = (SLOTS, 30_011)


def owner(one: bytes) -> bytes:
    """Of an id, whenever it is seen."""
    return encode_owner(3, crc32(one))


def owners(ids: Sequence[bytes]) -> list[bytes]:
    return [owner(one) for one in ids]


class StoreAgainstItsOutput(RuleBasedStateMachine):
    """Batches, commits, aborts, files written in part, crashes, checkpoints put back, and tables of another size.

    `output` is the topic: the ids that were passed on, in order. After a crash it is read again from the stamp.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="table-"))
        self.small = small_segments(slots=8_000, written_after_share=0.0)
        self.small.__enter__()
        self.random = Random(1)
        self.output: list[bytes] = []
        self.open: list[bytes] = []
        self.slots = SLOTS
        self.checkpoints = 0
        self.reopen()

    def teardown(self) -> None:
        self.small.__exit__(None, None, None)
        shutil.rmtree(self.directory)

    def reopen(self) -> None:
        self.store = open_store(self.directory / "db", self.slots)
        self.window = Window(self.store)
        stamp = self.store.metadata
        assert self.store.reach <= len(self.output)
        tail = self.output[stamp.output_position if stamp else 0 :]
        self.window.admit(b"".join(tail), owners(tail))
        self.write()

    def write(self) -> None:
        at = len(self.output)
        self.window.commit(output_position=at, input_offset=at, seen_ms=at)

    @rule(ids=st.lists(packed_id, max_size=30), fresh=st.integers(0, 400))
    def admit(self, ids: list[bytes], fresh: int) -> None:
        ids = [*ids, *(self.random.randbytes(ID_BYTES) for _ in range(fresh))]
        ids += self.open[::7] + self.output[::50]
        known = {*self.output, *self.open}
        certain = {*self.open, *alone(self.output)}
        repeats = self.window.admit(b"".join(ids), owners(ids))
        for row, one in enumerate(ids):
            if row in repeats:
                assert one in known, "a new message is never called a duplicate"
                assert repeats[row] == owner(one)
            else:
                assert one not in certain, "what nothing has overwritten is remembered"
                self.open.append(one)
            known.add(one)
            certain.add(one)

    @rule()
    def commit(self) -> None:
        self.output += self.open
        self.open.clear()
        self.write()
        self.store.age(len(self.output))

    @rule()
    def abort(self) -> None:
        self.window.abort()
        self.open.clear()

    @rule(times=st.integers(1, 9))
    def go_on(self, times: int) -> None:
        for _ in range(times):
            self.admit([], 50)
            self.commit()

    @rule()
    def crash(self) -> None:
        self.open.clear()
        self.reopen()

    @rule()
    def restart(self) -> None:
        self.abort()
        self.store.close()
        assert len(list((self.directory / "db").glob("*.seg"))) < 40, "what is replaced is deleted"
        self.reopen()
        assert self.store.metadata is not None

    @rule(slots=st.sampled_from(SIZES))
    def restart_with_another_size(self, slots: int) -> None:
        self.slots = slots
        self.restart()

    @rule()
    def crash_with_another_size(self) -> None:
        self.slots = self.random.choice(SIZES)
        self.crash()

    @rule()
    def fall_back_to_a_checkpoint(self) -> None:
        self.commit()
        self.checkpoints += 1
        checkpoint = self.directory / f"checkpoint-{self.checkpoints}"
        self.store.checkpoint(checkpoint)
        self.admit([], 300)
        self.commit()
        self.store.close()
        shutil.rmtree(self.directory / "db")
        shutil.copytree(checkpoint, self.directory / "db")
        self.reopen()


TestStore = StoreAgainstItsOutput.TestCase
TestStore.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


def alone(ids: Sequence[bytes]) -> set[bytes]:
    """Those that share their slot with no other, in a table of any of the sizes."""
    distinct = sorted(set(ids))
    if not distinct:
        return set()
    hashes = hash_ids(b"".join(distinct))
    found = np.ones(len(distinct), np.bool_)
    for slots in SIZES:
        _, place, count = np.unique(
            Table(slots, 8).slots_of(hashes), return_inverse=True, return_counts=True
        )
        found &= count[place] == 1
    return {one for one, is_alone in zip(distinct, found.tolist(), strict=True) if is_alone}


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with small_segments():
        yield


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A closed store of 3000 ids, `random_ids(1)`, in 20,000 slots."""
    store = open_store(tmp_path / "db")
    remember(store, random_ids(1, 3_000), position=3_000, now_ms=1_000)
    store.close()
    return tmp_path / "db"


def known(path: Path, slots: int = SLOTS) -> int:
    """How many of the ids in `filled` are remembered."""
    store = open_store(path, slots)
    found = count_known(store, random_ids(1, 3_000))
    store.close()
    return found


def test_ids_and_stamp_are_there_when_it_is_opened_again(filled: Path) -> None:
    store = open_store(filled)
    assert store.metadata is not None
    assert (store.metadata.output_position, store.metadata.keys, store.reach) == (
        3_000,
        3_000,
        3_000,
    )
    assert 2_750 < count_known(store, random_ids(1, 3_000)) < 2_850, "the others were overwritten"
    assert count_known(store, random_ids(2, 3_000)) == 0
    store.close()


def test_a_store_that_has_just_been_closed_writes_nothing_when_closed_again(filled: Path) -> None:
    before = {path.name: path.stat().st_ino for path in filled.glob("*.seg")}
    open_store(filled).close()
    assert {path.name: path.stat().st_ino for path in filled.glob("*.seg")} == before


def test_only_segments_that_changed_are_written(filled: Path) -> None:
    before = {path.name for path in filled.glob("*.seg")}
    store = open_store(filled)
    remember(store, random_ids(2, 1), position=3_001)
    store.close()
    assert len(before - {path.name for path in filled.glob("*.seg")}) == 1


def test_one_segment_is_written_between_two_transactions(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    remember(store, random_ids(1, SLOTS // 8), position=SLOTS // 8)
    for written in range(1, 7):
        store.age(0)
        assert len(list(tmp_path.glob("*.seg"))) == written
        assert not (tmp_path / MANIFEST).exists(), "half of a table is none"
    store.age(0)
    assert (tmp_path / MANIFEST).exists()
    store.age(0)
    assert len(list(tmp_path.glob("*.seg"))) == 7, "nothing more is due"


def test_few_ids_are_not_written_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    remember(store, random_ids(1, SLOTS // 8 - 1), position=1)
    store.age(0)
    assert list(tmp_path.iterdir()) == []


def test_few_ids_are_written_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    remember(store, random_ids(1, 1), position=1)
    monkeypatch.setattr("dedupe_worker.store.inverse_bloom.flush._WRITTEN_AFTER_SECONDS", 0.0)
    store.age(0)
    assert (tmp_path / MANIFEST).exists()


def test_the_stamp_on_disk_is_that_of_the_segment_which_is_most_behind(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(1, 8):  # 7 segments, each written some transactions after the one before
        remember(store, random_ids(number, 2_500), position=number * 2_500, now_ms=number)
        store.age(number)
    again = open_store(tmp_path)
    assert again.metadata is not None
    assert again.metadata.output_position == 2_500, "the first segment was written then"
    assert again.metadata.last_seen_ms == 1
    assert again.reach == 7 * 2_500
    assert count_known(again, random_ids(7, 2_500)) > 100, "some segments are ahead"


def damaged(path: Path) -> None:
    with pytest.raises(StoreCorrupt, match="rebuilt from the output topic"):
        open_store(path)


@pytest.mark.parametrize("place", [0.0, 0.001, 0.5, 0.999])
def test_a_flipped_byte_is_found_when_the_store_is_opened(filled: Path, place: float) -> None:
    flip_a_byte(files_of(filled, "*.seg")[3], place)
    damaged(filled)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("file", ["*.seg", MANIFEST])
def test_a_file_that_is_cut_off_is_found(filled: Path, file: str, share: float) -> None:
    cut_off(files_of(filled, file)[0], share)
    damaged(filled)


def test_a_segment_that_is_missing_is_found(filled: Path) -> None:
    files_of(filled, "*.seg")[2].unlink()
    damaged(filled)


def test_a_manifest_that_reads_well_and_is_another_is_found(filled: Path) -> None:
    text = (filled / MANIFEST).read_text()
    assert '"puts":3000' in text
    (filled / MANIFEST).write_text(text.replace('"puts":3000', '"puts":2000'))
    damaged(filled)


def test_a_segment_of_another_time_is_found(filled: Path, tmp_path: Path) -> None:
    """It is whole, and not what the manifest speaks of."""
    older = shutil.copytree(filled, tmp_path / "older")
    store = open_store(filled)
    remember(store, random_ids(2, 3_000), position=6_000)
    store.close()
    shutil.copy(files_of(older, "*.seg")[0], files_of(filled, "*.seg")[0])
    damaged(filled)


def test_what_no_manifest_names_is_deleted(filled: Path) -> None:
    stray = filled / "t00000001-00000-0000009999.seg"
    stray.write_bytes(b"half of a segm")
    (filled / UNTRUSTED).touch()
    assert known(filled) > 2_750
    assert not stray.exists()
    assert not (filled / UNTRUSTED).exists()


def test_a_checkpoint_shares_its_files_and_is_not_changed_later(
    filled: Path, tmp_path: Path
) -> None:
    store = open_store(filled)
    store.checkpoint(tmp_path / "copy")
    assert {path.name for path in filled.glob("*.seg")} == {
        path.name for path in (tmp_path / "copy").glob("*.seg")
    }
    assert all(path.stat().st_nlink == 2 for path in filled.glob("*.seg"))
    assert (filled / MANIFEST).stat().st_nlink == 1, "which may be damaged in one of them"
    remember(store, random_ids(2, 10_000), position=13_000)
    store.close()
    assert known(tmp_path / "copy") > 2_750
    assert known(filled) < 2_000


def test_what_was_forgotten_stays_so(filled: Path) -> None:
    store = open_store(filled)
    packed = random_ids(1, 3_000)
    ids = [packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)]
    assert store.forget([*ids[:100], *ids[:100], bytes(16)]) > 90
    store.close()
    assert known(filled) < 2_770


# -- another size -----------------------------------------------------------------------------------


def test_a_table_of_another_size_is_asked_beside_the_new_one(filled: Path) -> None:
    before = known(filled)
    assert known(filled, slots=5_000) == before
    assert known(filled, slots=5_000) == before, "when it is opened once more, too"
    store = open_store(filled, slots=5_000)
    assert [g.name for g in store.generations()] == ["t00000001", "t00000002"]
    assert store.metadata is not None
    assert store.metadata.output_position == 3_000


def test_an_id_is_located_in_the_newest_table_that_has_it(filled: Path) -> None:
    store = open_store(filled, slots=5_000)
    one, unknown = random_ids(1, 3_000)[:ID_BYTES], random_ids(9, 1)
    [(value, table)] = store.locate([one, unknown]).values()
    assert (value, table.name) == (bytes(8), "t00000001")
    store.write([one], [b"12345678"], output_position=3_001, input_offset=0, seen_ms=0)
    [(value, table)] = store.locate([one]).values()
    assert (value, table.name) == (b"12345678", "t00000002")
    assert store.lookup([one], hash_ids(one)) == {one: b"12345678"}


def test_the_table_before_goes_once_as_many_ids_have_come_as_it_holds(filled: Path) -> None:
    store = open_store(filled, slots=200_000)
    remember(store, random_ids(2, SLOTS - 1), position=10_000, now_ms=2_000)
    assert not store.age(2_000)
    assert count_known(store, random_ids(1, 3_000)) > 2_750
    remember(store, random_ids(3, 1), position=10_001, now_ms=2_000)
    assert store.age(2_000)
    assert count_known(store, random_ids(1, 3_000)) == 0
    assert store.metadata is not None
    assert store.metadata.truncated, "its ids were young"
    store.close()
    assert not list(filled.glob("t00000001-*"))


def test_the_table_before_goes_once_its_ids_are_old(filled: Path) -> None:
    store = open_store(filled, slots=30_000)
    remember(store, random_ids(2, 10), position=10_000, now_ms=28 * DAY_MS)
    assert not store.age(28 * DAY_MS)
    assert store.age(28 * DAY_MS + 1_000)
    assert store.metadata is not None
    assert not store.metadata.truncated, "that is what maxAge asks for"
    assert store.forgotten_ms == 1_000


def remember_aged(store: InverseBloomStore, packed: bytes, position: int, aged_ms: int) -> None:
    """Write ids at a time by which they age, while the wall clock says another."""
    window = Window(store, ageing=AgeingClock(StillClock(), aged_ms))
    window.admit(packed, [OWNER] * (len(packed) // ID_BYTES))
    window.commit(output_position=position, input_offset=position, seen_ms=50 * DAY_MS)


def test_the_table_before_goes_by_the_clock_by_which_ids_age(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    remember_aged(store, random_ids(1, 10), 10, 10 * DAY_MS)
    store.close()
    store = open_store(tmp_path, slots=30_000)
    remember_aged(store, random_ids(2, 10), 20, 10 * DAY_MS)
    assert not store.age(38 * DAY_MS - 1)
    assert store.age(38 * DAY_MS)
    assert store.metadata is not None
    assert not store.metadata.truncated, "that is what maxAge asks for"
    store.close()


def test_wider_values_begin_a_table_of_their_own(filled: Path) -> None:
    store = open_store(filled, value_bytes=18)
    assert count_known_wide(store, random_ids(1, 3_000)) > 2_750
    packed = random_ids(2, 10)
    ids = [packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)]
    values = [bytes([row]) * 18 for row in range(10)]
    store.write(ids, values, output_position=3_010, input_offset=0, seen_ms=0)
    assert store.lookup(ids, hash_ids(packed)) == dict(zip(ids, values, strict=True))
    store.close()


def count_known_wide(store: InverseBloomStore, packed: bytes) -> int:
    ids = [packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)]
    return len(store.lookup(ids, hash_ids(packed)))


# -- what it says of itself -------------------------------------------------------------------------


def test_the_window_is_the_age_at_which_half_is_lost(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.window_seconds(5_000) == 0
    for second in range(60):  # 1000 ids each
        now_ms = 1_000 * second
        remember(store, random_ids(second, 1_000), position=second, now_ms=now_ms)
        store.age(now_ms)
        if second == 12:
            assert store.window_seconds(now_ms) == 12, "all that came, so far"
            assert store.metadata is not None
            assert not store.metadata.truncated
    assert store.window_seconds(59_000) == 12  # less than 0.69 * 20,000 ids before
    assert store.metadata is not None
    assert store.metadata.truncated
    age = int(store.window_seconds(59_000))
    assert count_known(store, random_ids(59 - age, 1_000)) == pytest.approx(535, abs=60)
    assert store.forgotten_ms == pytest.approx(45_000, abs=1_000)


def test_the_window_is_by_the_clock_by_which_ids_age(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for second in range(60):
        remember_aged(store, random_ids(second, 1_000), second, 1_000 * second + 1)
    assert store.window_seconds(59_001) == 12
    store.close()


def test_the_window_reaches_into_the_table_before(filled: Path) -> None:
    store = open_store(filled, slots=30_000)
    remember(store, random_ids(2, 100), position=4_000, now_ms=9_000)
    assert store.window_seconds(11_000) == 10
    store.close()


def test_keys_are_the_slots_in_use(filled: Path) -> None:
    store = open_store(filled)
    [table] = store.generations()
    assert table.keys == pytest.approx(count_known(store, random_ids(1, 3_000)), abs=45)
    assert table.size_bytes == SLOTS * 24


def test_a_comparison_with_the_output_is_refused(filled: Path) -> None:
    store = open_store(filled)
    with pytest.raises(NotComparable, match="forgets ids by chance"):
        store.fully_reconcilable()
