"""Reads in several threads return what reads one after the other return."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import current_thread, main_thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.errors import StoreCorrupt
from dedupe_worker.store import read_threads
from dedupe_worker.store.read_threads import ReadThreads
from tests.support.patience import pace
from tests.unit.worker.stores import count_known, open_store, random_ids, remember

IDS = [b"%016d" % number for number in range(400)]
DAY_MS = 24 * 3600 * 1000
NEVER = 1 << 40

Held = dict[bytes, bytes]


@pytest.fixture(autouse=True)
def _threads_are_always_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lookup counts as one that has read from the disk."""
    monkeypatch.setattr(read_threads, "_SECTORS_PER_ID", 0)


@pytest.fixture
def threads() -> Iterator[ReadThreads]:
    """Threads that the next lookup uses."""
    with closing(ReadThreads()) as made:
        made.read([(Reader({}).read, IDS)])
        yield made


class Reader:
    """Reads from a dictionary, and notes in which threads it did."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self.in_threads: list[bool] = []

    def read(self, ids: list[bytes]) -> list[bytes | None]:
        self.in_threads.append(current_thread() is not main_thread())
        return [self._held.get(each) for each in ids]


@pytest.fixture(scope="module")
def used() -> Iterator[ReadThreads]:
    """Threads that all examples of a test share."""
    with closing(ReadThreads()) as made:
        yield made


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(IDS), st.binary(min_size=1, max_size=2)),
            st.lists(st.sampled_from(IDS), unique=True),
        ),
        max_size=4,
    )
)
def test_values_are_those_of_the_last_read_that_finds_an_id(
    used: ReadThreads, generations: list[tuple[Held, list[bytes]]]
) -> None:
    asked = [(Reader(held).read, ids) for held, ids in generations]
    expected = {i: held[i] for held, ids in generations for i in ids if i in held}
    assert used.read(asked) == expected


def test_all_ids_are_asked_for_in_all_threads(threads: ReadThreads) -> None:
    readers = [Reader(dict.fromkeys(IDS[n:], b"%d" % n)) for n in range(3)]
    found = threads.read([(reader.read, IDS) for reader in readers])
    assert found == {each: b"%d" % min(number, 2) for number, each in enumerate(IDS)}
    assert sum(sum(reader.in_threads) for reader in readers) >= 15


@pytest.mark.parametrize(("sectors", "expected"), [(0, True), (NEVER, False)])
def test_threads_are_used_after_a_lookup_that_has_read_from_the_disk(
    monkeypatch: pytest.MonkeyPatch, sectors: int, *, expected: bool
) -> None:
    monkeypatch.setattr(read_threads, "_SECTORS_PER_ID", sectors)
    reader = Reader({})
    with closing(ReadThreads()) as threads:
        threads.read([(reader.read, IDS)])
        assert not any(reader.in_threads), "nothing was read from the disk before"
        threads.read([(reader.read, IDS)])
    assert any(reader.in_threads) == expected


def test_a_few_ids_are_not_worth_a_thread(threads: ReadThreads) -> None:
    reader = Reader({})
    assert threads.read([(reader.read, IDS[:3]), (reader.read, [])]) == {}
    assert reader.in_threads == [False]


@pytest.mark.parametrize("failing", [0, 1], ids=["in a thread", "in the caller's"])
def test_an_error_is_raised_after_all_reads_have_ended(threads: ReadThreads, failing: int) -> None:
    ended = []

    def fail(_: list[bytes]) -> list[bytes | None]:
        raise StoreCorrupt("a block is damaged")

    def read_slowly(ids: list[bytes]) -> list[bytes | None]:
        pace(0.05)  # a disk that takes its time
        ended.append(len(ids))
        return [None] * len(ids)

    reads = [read_slowly, fail] if failing else [fail, read_slowly]
    with pytest.raises(StoreCorrupt):
        threads.read((read, IDS[:16]) for read in reads)
    assert ended == [16]


def test_a_store_remembers_the_ids_of_all_its_generations(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "db")) as store:
        for number in range(3):
            now_ms = (number + 1) * 6 * DAY_MS
            remember(store, random_ids(number, 20_000), position=number + 1, now_ms=now_ms)
            store.age(now_ms + 6 * DAY_MS)
        assert len(store.generations()) == 4
        for _ in range(2):
            known = [count_known(store, random_ids(number, 20_000)) for number in range(4)]
            assert known == [20_000, 20_000, 20_000, 0]
