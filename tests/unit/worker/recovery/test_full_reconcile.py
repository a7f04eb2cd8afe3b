"""The whole store against the output topic, both ways: decisions and a real store, against Python's sets."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Rdict

from dedupe_ids.extract import ID_BYTES, PackedIds
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.errors import DiskFull
from dedupe_worker.kafka import consumer
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.recovery import full_reconcile as comparison
from dedupe_worker.recovery.difference import (
    GenerationRange,
    find_difference,
    find_generation,
    plan_ranges,
)
from dedupe_worker.recovery.full_reconcile import Outcome, run_full_reconcile
from dedupe_worker.status import Progress
from dedupe_worker.store import generation as store_module
from dedupe_worker.store.bloom_filter import hash_ids
from dedupe_worker.store.external_sort import id_bytes, make_entries, sort_entries
from dedupe_worker.store.metadata import METADATA_KEY, StoreMetadata, encode_metadata
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.rocksdb_options import TableOptions, table_options
from tests.support.snapshots.volumes import small_volume
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import MIB, OWNER, open_store, remember

GENERATION_MS = 6 * 24 * 3600 * 1000  # a fifth of the window's age, and a little more: seals


def one_id(number: int) -> bytes:
    """Ids in another order than their numbers, some ending in zero bytes."""
    return (number * 0x9E37 % 0x10000).to_bytes(2, "big") + b"\0" * (ID_BYTES - 2)


@dataclass(frozen=True)
class OutputRecord:
    """A record of the output with its id, or none."""

    at: int
    id: bytes | None

    def offset(self) -> int:
        return self.at


class OutputReader:
    """Reads records from an output partition that begins at `low` and ends, behind its markers, at `end`."""

    def __init__(self, records: Sequence[OutputRecord], output: OffsetRange) -> None:
        self._records = [each for each in records if each.at >= output.low]
        self._end = output.end

    def read(self, max_records: int, _wait_seconds: float) -> Batch:
        batch, self._records = self._records[:max_records], self._records[max_records:]
        next_offset = batch[-1].at + 1 if self._records else self._end
        messages: list[Message] = batch  # type: ignore[assignment] # all that the code asks of them
        return Batch(messages, next_offset, behind=len(self._records))

    def end_offset(self) -> int | None:
        return self._end

    def check(self, end: int) -> None:
        pass

    def group_metadata(self) -> object:
        return None


def extract(records: Sequence[Message]) -> PackedIds:
    ids: list[bytes | None] = [each.id for each in records]  # type: ignore[attr-defined] # OutputRecord
    rows = [row for row, one in enumerate(ids) if one is not None]
    return PackedIds(np.array(rows, np.intp), b"".join(one for one in ids if one is not None))


@dataclass(frozen=True)
class LearntIds:
    """Ids of other outputs, of which some records may be gone."""

    ids: Sequence[bytes]
    all_there: bool = True

    def packed(self) -> Iterator[bytes]:
        yield from self.ids


def run(
    store: Store,
    directory: Path,
    records: Sequence[OutputRecord],
    output: OffsetRange,
    learnt: LearntIds | None = None,
) -> Outcome | None:
    return run_full_reconcile(
        OutputReader(records, output),
        store,
        extract,
        directory=directory,
        output=output,
        stop=Event(),
        on_progress=lambda _: None,
        learnt=learnt,
    )


def contents(store: Store) -> dict[str, set[bytes]]:
    return {
        name: set(id_bytes(make_entries(b"".join(store.ids(name)))["id"]))
        for name, _ in store.positions()
    }


# -- what was learnt of other outputs ------------------------------------------------------------


def test_ids_that_were_learnt_of_other_partitions_belong_to_the_store(tmp_path: Path) -> None:
    """Of a partition that a growth has added: their records are in the outputs of older ones."""
    store = open_store(tmp_path / "db")
    remember(store, one_id(1) + one_id(2), position=0)
    remember(store, one_id(3), position=1)
    records = [OutputRecord(0, one_id(3)), OutputRecord(1, one_id(4))]
    learnt = LearntIds([one_id(1), one_id(5) + one_id(4)])
    found = run(store, tmp_path / "comparison", records, OffsetRange(0, 2), learnt)
    assert found == Outcome(records=2, added=2, removed=1)
    assert set().union(*contents(store).values()) == {one_id(n) for n in (1, 3, 4, 5)}
    store.close()


def test_nothing_is_removed_if_records_that_were_learnt_of_are_gone(tmp_path: Path) -> None:
    store = open_store(tmp_path / "db")
    remember(store, one_id(1) + one_id(2), position=0)
    learnt = LearntIds([one_id(1)], all_there=False)
    found = run(store, tmp_path / "comparison", [], OffsetRange(0, 0), learnt)
    assert found == Outcome(unverifiable=1)
    assert set().union(*contents(store).values()) == {one_id(1), one_id(2)}
    store.close()


# -- decisions -----------------------------------------------------------------------------------


def test_a_generation_begins_where_the_one_before_it_ended() -> None:
    ranges = plan_ranges([("g00000003", 40), ("g00000004", 90), ("g00000005", None)])
    assert [generation.begin for generation in ranges] == [0, 40, 90]


def test_what_came_before_the_stream_is_no_predecessor() -> None:
    ranges = plan_ranges(
        [("b00000001", 70), ("b00000002", 70), ("g00000001", 90), ("g00000002", 99)]
    )
    assert [(generation.begin, generation.bootstrapped) for generation in ranges] == [
        (0, True),
        (0, True),
        (0, False),
        (90, False),
    ]


numbers = st.sets(st.integers(0, 30))


@given(
    output=st.dictionaries(st.integers(0, 30), st.integers(0, 1000)),
    stored=st.lists(st.tuples(numbers, st.booleans()), max_size=4),
)
def test_one_range_is_compared_as_sets_are(
    output: dict[int, int], stored: list[tuple[set[int], bool]]
) -> None:
    ranges = [
        GenerationRange(f"x{n}", 0, bootstrapped) for n, (_, bootstrapped) in enumerate(stored)
    ]
    found = find_difference(
        sort_entries(
            make_entries(b"".join(map(one_id, output)), np.array([*output.values()], np.int64))
        ),
        [sort_entries(make_entries(b"".join(map(one_id, ids))))["id"] for ids, _ in stored],
        ranges,
    )
    known: set[int] = set().union(*(ids for ids, _ in stored))
    ordinary: set[int] = set().union(*(ids for ids, bootstrapped in stored if not bootstrapped))
    assert set(id_bytes(found.missing["id"])) == {one_id(n) for n in output.keys() - known}
    for (ids, bootstrapped), surplus in zip(stored, found.surplus, strict=True):
        expected = set() if bootstrapped else ids - output.keys()
        assert set(id_bytes(surplus)) == {one_id(n) for n in expected}
    expected_first = min((output[n] for n in output.keys() & ordinary), default=None)
    assert found.first_known == expected_first


@given(
    ends=st.lists(st.integers(0, 100), min_size=1, max_size=5).map(sorted),
    bootstrapped=st.integers(0, 2),
    position=st.integers(0, 120),
)
def test_an_id_goes_where_its_record_is_not_before_the_beginning(
    ends: list[int], bootstrapped: int, position: int
) -> None:
    names: list[tuple[str, int | None]] = [(f"b{n}", 50) for n in range(bootstrapped)]
    names += [(f"g{n}", end) for n, end in enumerate(ends)]
    ranges = plan_ranges(names)
    [number] = find_generation(ranges, np.array([position], np.int64)).tolist()
    assert ranges[number].begin <= position
    assert not ranges[number].bootstrapped
    assert all(generation.begin > position for generation in ranges[number + 1 :])


# -- a real store --------------------------------------------------------------------------------

ids_of_a_transaction = st.lists(st.none() | st.integers(0, 400), max_size=8)
generations_of_transactions = st.lists(
    st.lists(ids_of_a_transaction, min_size=1, max_size=4), min_size=1, max_size=8
)


@dataclass
class Past:
    """What a stream has passed on: the records, and the output's end."""

    records: list[OutputRecord]
    end: int


def live(store: Store, generations: Sequence[Sequence[Sequence[int | None]]]) -> Past:
    """Pass transactions on, each with a marker behind it; a generation is sealed after those of each list."""
    past = Past([], 0)
    known: dict[str, set[bytes]] = {}
    for age, transactions in enumerate(generations):
        for transaction in transactions:
            remembered: set[bytes] = set().union(*known.values())
            ids = dict.fromkeys(one_id(n) for n in transaction if n is not None)
            new = [one for one in ids if one not in remembered]
            passed = [*new, *(None for n in transaction if n is None)]
            past.records += [OutputRecord(past.end + n, one) for n, one in enumerate(passed)]
            past.end += len(passed) + 1
            known.setdefault(store.positions()[-1][0], set()).update(new)
            remember(store, b"".join(new), position=past.end, now_ms=age * GENERATION_MS)
        store.age((age + 1) * GENERATION_MS)
        known = {name: known.get(name, set()) for name, _ in store.positions()}
    return past


@settings(max_examples=40, deadline=None)
@given(
    generations=generations_of_transactions,
    low=st.integers(0, 60),
    lost=numbers,
    invented=st.sets(st.integers(300, 700)),
    pick=st.integers(0, 100),
)
def test_a_store_holds_what_the_output_holds_afterwards(
    generations: list[list[list[int | None]]],
    low: int,
    lost: set[int],
    invented: set[int],
    pick: int,
) -> None:
    with TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patch:
        # Small, so that there are several runs and pieces of each.
        patch.setattr(comparison, "_RUN_RECORDS", 7)
        patch.setattr(comparison, "_PIECE_ENTRIES", 6)
        patch.setattr(consumer, "_OUTPUT_BATCH_RECORDS", 4)
        patch.setattr(store_module, "_SCAN_KEYS", 3)
        store = open_store(Path(temporary) / "db")
        past = live(store, generations)
        if lost:
            store.forget([one_id(n) for n in lost])
        names = [name for name, _ in store.positions()]
        added = sorted({one_id(n) for n in invented} - set().union(*contents(store).values()))
        if store.metadata:
            store.amend(names[pick % len(names)], added=added)
            output = OffsetRange(min(low, past.end), past.end)
            assert_made_equal(store, Path(temporary) / "comparison", past.records, output)
        store.close()


def assert_made_equal(
    store: Store, directory: Path, records: Sequence[OutputRecord], output: OffsetRange
) -> None:
    """The rules of docs/decisions/0012 in sets, and what was done."""
    before = contents(store)
    ranges = plan_ranges(store.positions())
    last = {each.id: each.at for each in records if each.id is not None and each.at >= output.low}
    known = set().union(*before.values())
    first_known = min((last[one] for one in last.keys() & known), default=0)
    if ranges[0].name == "g00000001":
        first_known = 0
    missing = {one: at for one, at in last.items() if one not in known}
    added = {one: at for one, at in missing.items() if at >= first_known}
    expected = {name: set(ids) for name, ids in before.items()}
    for one, at in added.items():
        [*_, place] = [generation.name for generation in ranges if generation.begin <= at]
        expected[place].add(one)
    removed = unverifiable = 0
    for generation in ranges:
        surplus = before[generation.name] - last.keys()
        if output.low <= generation.begin:
            removed += len(surplus)
            expected[generation.name] -= surplus
        else:
            unverifiable += len(surplus)

    keys = sum(g.keys for g in store.generations())
    outcome = run(store, directory, records, output)
    read = sum(each.at >= output.low for each in records)
    assert outcome == Outcome(
        records=read,
        added=len(added),
        removed=removed,
        aged_out=len(missing) - len(added),
        unverifiable=unverifiable,
    )
    assert contents(store) == expected
    assert sum(g.keys for g in store.generations()) == keys + len(added) - removed
    assert not directory.exists()
    again = run(store, directory, records, output)
    assert again is not None
    assert (again.added, again.removed) == (0, 0), "once is enough"


# -- its end -------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "db")


def test_what_it_has_changed_is_on_disk_when_it_ends(tmp_path: Path, store: Store) -> None:
    past = live(store, [[[1, 2, 3]], [[4, 5, 6]], [[7]]])
    store.forget([one_id(2), one_id(5)])
    store.amend("g00000002", added=[one_id(500)])
    store.flush_all()
    run(store, tmp_path / "comparison", past.records, OffsetRange(0, past.end))
    expected = contents(store)
    # As a crash would leave it: what is in memory only is not in the copy.
    copy = copy_of_files(tmp_path)
    assert contents(copy) == expected
    assert expected["g00000001"] == {one_id(1), one_id(2), one_id(3)}
    assert expected["g00000002"] == {one_id(4), one_id(5), one_id(6)}
    copy.close()
    store.close()


def copy_of_files(directory: Path) -> Store:
    shutil.copytree(directory / "db", directory / "copy")
    return open_store(directory / "copy")


def test_without_room_for_its_files_the_store_is_as_before(tmp_path: Path, store: Store) -> None:
    past = live(store, [[list(range(400))] * 2])
    store.forget([one_id(n) for n in range(100)])
    before = contents(store)
    with small_volume(tmp_path / "volume", 1 << 13) as volume:
        directory = volume.path / "comparison"
        with pytest.raises(DiskFull):
            run(store, directory, past.records, OffsetRange(0, past.end))
        assert not directory.exists()
    assert contents(store) == before
    store.close()


def test_what_a_crash_has_left_is_no_part_of_the_next_one(tmp_path: Path, store: Store) -> None:
    past = live(store, [[[1, 2, 3]]])
    directory = tmp_path / "comparison"
    directory.mkdir()
    (directory / "run-0").write_bytes(make_entries(one_id(9)).tobytes())
    (directory / "missing").write_bytes(make_entries(one_id(9)).tobytes())
    outcome = run(store, directory, past.records, OffsetRange(0, past.end))
    assert outcome == Outcome(records=3)
    assert not directory.exists()
    store.close()


def test_each_piece_of_files_and_ids_is_reported(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the output, comparing, adding and removing; the watchdog waits for 240 s."""
    past = live(store, [[[*range(1, 40)]], [[*range(40, 80)]]])
    store.forget([one_id(2)])
    store.amend("g00000002", added=[one_id(500)])
    monkeypatch.setattr(store_module, "_SCAN_KEYS", 1)
    monkeypatch.setattr(comparison, "_PIECE_ENTRIES", 1)
    clock, ages = StillClock(), [0.0]
    beats = [clock.monotonic()]

    def piece(real: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*given: Any, **named: Any) -> Any:  # noqa: ANN401 (of any function)
            clock.sleep(30)
            ages.append(clock.monotonic() - beats[-1])
            return real(*given, **named)

        return slow

    monkeypatch.setattr(comparison, "make_entries", piece(make_entries))
    monkeypatch.setattr(comparison, "sort_entries", piece(sort_entries))
    output = OffsetRange(0, past.end)
    done = run_full_reconcile(
        OutputReader(past.records, output),
        store,
        extract,
        directory=tmp_path / "comparison",
        output=output,
        stop=Event(),
        on_progress=lambda _: beats.append(clock.monotonic()),
        clock=clock,
    )
    assert done is not None
    assert (done.added, done.removed) == (1, 1)
    assert len(ages) * 30 > 240, "the watchdog would not have waited"
    assert max(ages) <= 120
    store.close()


@pytest.mark.parametrize("after", range(6))
def test_one_that_is_stopped_is_not_done(tmp_path: Path, store: Store, after: int) -> None:
    """Wherever it is stopped, the next one does what is left."""
    past = live(store, [[[1, 2, 3]], [[4, 5, 6]]])
    store.forget([one_id(2)])
    store.amend("g00000002", added=[one_id(500)])
    stop, times = Event(), iter(range(after))

    def on_progress(_: Progress) -> None:
        if next(times, None) is None:
            stop.set()

    output = OffsetRange(0, past.end)
    stopped = run_full_reconcile(
        OutputReader(past.records, output),
        store,
        extract,
        directory=tmp_path / "comparison",
        output=output,
        stop=stop,
        on_progress=on_progress,
    )
    assert stopped is None
    assert not (tmp_path / "comparison").exists()
    run(store, tmp_path / "comparison", past.records, output)
    assert contents(store)["g00000001"] == {one_id(n) for n in (1, 2, 3)}
    assert contents(store)["g00000002"] == {one_id(n) for n in (4, 5, 6)}
    store.close()


def test_what_came_before_the_stream_is_known_and_left_alone(tmp_path: Path, store: Store) -> None:
    """A generation of `dedupe bootstrap`, whose ids the output never had, or has in part."""
    past = live(store, [[[1, 2, 3]], [[4]]])
    store.forget([one_id(1), one_id(4)])
    store.close()
    add_generation(tmp_path / "db", "b00000001", [one_id(1), one_id(600)], position=past.end)
    store = open_store(tmp_path / "db")
    assert run(store, tmp_path / "comparison", past.records, OffsetRange(0, past.end)) == Outcome(
        records=4, added=1
    )
    assert contents(store) == {
        "b00000001": {one_id(1), one_id(600)},
        "g00000001": {one_id(2), one_id(3)},
        "g00000002": {one_id(4)},
        "g00000003": set(),
    }
    assert store.lookup([one_id(4)], hash_ids(one_id(4))), "its filter was made without it"
    store.close()


def add_generation(path: Path, name: str, ids: Sequence[bytes], *, position: int) -> None:
    options = table_options(TableOptions(generation_bytes=MIB, block_cache_bytes=MIB))
    families = {each: options for each in Rdict.list_cf(str(path)) if each != "default"}
    database = Rdict(str(path), options, column_families=families)
    family = database.create_column_family(name, options)
    for one in ids:
        family[one] = OWNER
    family[METADATA_KEY] = encode_metadata(
        StoreMetadata(
            output_position=position,
            input_offset=-1,
            keys=len(ids),
            first_seen_ms=0,
            last_seen_ms=0,
            truncated=False,
        )
    )
    family.close()
    database.close()
