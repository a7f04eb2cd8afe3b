"""The batch decision against a reference that is a dictionary."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from dedupe_worker.dedup.ageing_clock import AgeingClock
from dedupe_worker.dedup.window import Window, find_repeats
from dedupe_worker.values import OWNER as OWNERS
from dedupe_worker.values import UNKNOWN_OWNER, encode_owner
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import OWNER, count_known, open_store, random_ids
from tests.unit.worker.strategies import packed_id

batches = st.lists(packed_id, max_size=40)
Known = dict[bytes, bytes]
GENERATION_MS = 6 * 24 * 3600 * 1000  # over a fifth of the window's age, and four of them under it


def reference(ids: Sequence[bytes], owners: Sequence[bytes], known: Known) -> dict[int, bytes]:
    """One id after the other: a repeat of the first that had it. Adds the others to `known`."""
    repeats = {}
    for row, (one, owner) in enumerate(zip(ids, owners, strict=True)):
        if one in known:
            repeats[row] = known[one]
        else:
            known[one] = owner
    return repeats


@given(batches, batches, st.data())
def test_repeats_are_found_as_one_by_one(
    before: list[bytes], ids: list[bytes], data: st.DataObject
) -> None:
    known = {one: encode_owner(1, row) for row, one in enumerate(before)}
    owners = [encode_owner(0, row) for row in range(len(ids))]
    suspects = [
        row
        for row, one in enumerate(ids)
        if one in known or ids.count(one) > 1 or data.draw(st.booleans())
    ]
    assert find_repeats(ids, owners, suspects, known) == reference(ids, owners, dict(known))


class WindowAgainstReference(RuleBasedStateMachine):
    """Random batches, commits, aborts, generations sealed, ids forgotten, and stores opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="window-"))
        self.committed: Known = {}
        self.known: Known = {}
        self.offset = 0
        self.now_ms = 0
        self.store = open_store(self.directory)
        self.window = Window(self.store)

    @rule(ids=batches)
    def admit(self, ids: list[bytes]) -> None:
        owners = [encode_owner(0, self.offset + row) for row in range(len(ids))]
        self.offset += len(ids)
        expected = reference(ids, owners, self.known)
        assert self.window.admit(b"".join(ids), owners) == expected

    @rule()
    def commit(self) -> None:
        position = len(self.known)
        self.window.commit(output_position=position, input_offset=self.offset, seen_ms=self.now_ms)
        self.committed = dict(self.known)
        stamp = self.store.metadata
        assert stamp is not None
        assert (stamp.output_position, stamp.input_offset) == (position, self.offset)

    @rule()
    def abort(self) -> None:
        self.window.abort()
        self.known = dict(self.committed)

    @precondition(lambda self: self.now_ms < 3 * GENERATION_MS)
    @rule()
    def seal(self) -> None:
        self.commit()
        self.now_ms += GENERATION_MS
        assert not self.store.age(self.now_ms)

    @rule(ids=st.lists(packed_id, min_size=1, max_size=5, unique=True))
    def forget(self, ids: list[bytes]) -> None:
        self.commit()
        known = [one for one in ids if self.known.pop(one, None)]
        assert self.store.forget(ids) == len(known)
        self.committed = dict(self.known)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.known = dict(self.committed)
        self.store = open_store(self.directory)
        self.window = Window(self.store)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.directory)


TestWindow = WindowAgainstReference.TestCase
TestWindow.settings = settings(max_examples=25, stateful_step_count=20)


def test_what_was_aborted_is_new_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    window = Window(store)
    window.admit(random_ids(1, 100), [OWNER] * 100)
    window.abort()
    assert window.admit(random_ids(1, 100), [OWNER] * 100) == {}
    store.close()


def test_ids_go_into_the_store_only_with_a_commit(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    Window(store).admit(random_ids(1, 100), [OWNER] * 100)
    assert count_known(store, random_ids(1, 100)) == 0
    store.close()


A, B = random_ids(1, 1), random_ids(2, 1)
FIRST, SECOND = encode_owner(0, 3), encode_owner(0, 7)
NO_OWNER = UNKNOWN_OWNER
HALF_OF_THE_WINDOW_MS = 14 * 86_400_000


@pytest.mark.parametrize(
    ("learnt", "value"),
    [
        ([FIRST + b"x", SECOND + b"x"], SECOND + b"x"),
        ([FIRST + b"x", NO_OWNER + b"x"], FIRST + b"x"),
        ([FIRST + b"x", NO_OWNER + b"y"], NO_OWNER + b"y"),
        ([NO_OWNER + b"x", SECOND + b"x"], SECOND + b"x"),
        ([FIRST + b"x", SECOND + b"y", NO_OWNER + b"y"], SECOND + b"y"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("committed", [True, False])
def test_the_newest_record_of_the_output_is_the_original(
    tmp_path: Path, learnt: list[bytes], value: bytes, together: bool, committed: bool
) -> None:
    """With its owner unknown, a record that is the same otherwise is one that is read again."""
    store = open_store(tmp_path)
    dtype = np.dtype("V9")
    window = Window(store, dtype)
    batches = [learnt] if together else [[each] for each in learnt]
    for batch in batches:
        values = np.array([*batch, SECOND + b"b"], dtype)
        window.learn(A * len(batch) + B, values)
        if committed:
            window.commit(output_position=1, input_offset=1, seen_ms=1)
    assert window.find(A + B) == {0: value, 1: SECOND + b"b"}
    store.close()


@pytest.mark.parametrize("together", [True, False])
def test_a_record_behind_one_of_others_gets_its_owner_back(tmp_path: Path, together: bool) -> None:
    """Its transaction has no entry in the owner log, as others have written within it."""
    store = open_store(tmp_path)
    window, replaced = Window(store, np.dtype("V9")), dict[bytes, bytes]()
    window.admit(A, np.array([FIRST + b"x"], "V9"))
    window.commit(output_position=1, input_offset=1, seen_ms=1)
    output = [NO_OWNER + b"o", NO_OWNER + b"x"]
    for batch in [output] if together else [[each] for each in output]:
        window.learn(A * len(batch), np.array(batch, "V9"), replaced)
        window.commit(output_position=2, input_offset=1, seen_ms=1)
    assert window.find(A) == {0: FIRST + b"x"}
    store.close()


@pytest.mark.parametrize(
    ("output", "own", "known"),
    [
        ([b"x"], [True], None),
        ([b"x", b"y"], [True, True], None),
        ([b"o"], [False], b"o"),
        ([b"o", b"x"], [False, True], b"x"),
        ([b"x", b"o"], [True, False], b"o"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_record_that_is_read_again_brings_no_forgotten_id_back(
    tmp_path: Path, output: list[bytes], own: list[bool], known: bytes | None, together: bool
) -> None:
    """Others' records do: this window never had them."""
    store = open_store(tmp_path)
    window, replaced = Window(store, np.dtype("V9")), dict[bytes, bytes]()
    window.admit(A + B, np.array([FIRST + b"x", SECOND + b"b"], "V9"))
    window.commit(output_position=1, input_offset=1, seen_ms=1)
    store.forget([A])
    rows = range(len(output))
    for batch in [[*rows]] if together else [[row] for row in rows]:
        values = np.array([NO_OWNER + b"b", *(NO_OWNER + output[row] for row in batch)], "V9")
        mask = np.array([True, *(own[row] for row in batch)])
        window.learn(B + A * len(batch), values, replaced, mask)
        window.commit(output_position=2, input_offset=1, seen_ms=1)
    expected = {} if known is None else {0: NO_OWNER + known}
    assert window.find(A + B) == expected | {1: SECOND + b"b"}
    store.close()


def test_a_newer_value_is_found_ahead_of_one_in_an_older_generation(tmp_path: Path) -> None:
    store = open_store(tmp_path, generations=2)
    window = Window(store)
    for owner, seen_ms in ((FIRST, 1), (SECOND, 1 + HALF_OF_THE_WINDOW_MS)):
        store.age(seen_ms)
        window.learn(A, np.array([owner], OWNERS))
        window.commit(output_position=1, input_offset=1, seen_ms=seen_ms)
    assert [each.keys for each in store.generations()] == [1, 1]
    assert window.find(A) == {0: SECOND}
    store.close()


@pytest.mark.parametrize("first", [FIRST, NO_OWNER])
@pytest.mark.parametrize("own", [False, True])
def test_a_newer_record_of_an_id_is_remembered_from_then_on_though_its_owner_is_unknown(
    tmp_path: Path, first: bytes, own: bool
) -> None:
    """`own`: it is the record itself, and read again; then its id is as old as it was."""
    store = open_store(tmp_path, generations=2)
    window = Window(store)
    for owner, seen_ms in ((first, 1), (NO_OWNER, 1 + HALF_OF_THE_WINDOW_MS)):
        store.age(seen_ms)
        window.learn(A, np.array([owner], OWNERS), {}, np.array([own and seen_ms > 1]))
        window.commit(output_position=1, input_offset=1, seen_ms=seen_ms)
    assert [each.keys for each in store.generations()] == [1, 0 if own else 1]
    assert window.find(A) == {0: first}
    store.close()


def test_the_first_record_of_an_observed_stream_stays_the_original(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    window = Window(store, observes=True)
    window.learn(A + A, np.array([FIRST, SECOND], OWNERS))
    assert window.find(A) == {0: FIRST}
    store.close()


def test_the_newest_record_is_the_original_if_an_older_generation_has_another(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    window = Window(store)
    for age, owner in enumerate((FIRST, SECOND)):
        window.learn(A, np.array([owner], OWNERS))
        window.commit(output_position=1, input_offset=1, seen_ms=age * GENERATION_MS)
        window.age((age + 1) * GENERATION_MS)
    assert window.find(A) == {0: SECOND}
    store.close()


def test_of_many_ids_that_one_transaction_replaces_the_newest_value_is_written(
    tmp_path: Path,
) -> None:
    """The write is sorted by id, and two values of one id keep their order."""
    store = open_store(tmp_path)
    window, ids, count = Window(store), random_ids(3, 1000), 1000
    for owner in (FIRST, SECOND):
        window.learn(ids, np.array([owner] * count, OWNERS))
    window.commit(output_position=1, input_offset=1, seen_ms=1)
    assert set(window.find(ids).values()) == {SECOND}
    store.close()


def test_an_id_is_written_with_the_latest_time_that_it_may_be(tmp_path: Path) -> None:
    """Else it would be older by what the ageing clock has not counted yet."""
    store, clock = open_store(tmp_path), StillClock()
    window = Window(store, ageing=AgeingClock(clock, 0))
    clock.sleep(5)
    window.admit(A, [FIRST])
    window.commit(output_position=1, input_offset=1, seen_ms=clock.time_ms())
    assert store.aged_ms == clock.time_ms()
    store.close()


def test_ids_that_share_a_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the open transaction, where neighbours of one hash are all looked at."""
    monkeypatch.setattr(
        "dedupe_worker.dedup.window.hash_ids",
        lambda packed: np.zeros(len(packed) // 16, np.uint64),
    )
    store = open_store(tmp_path)
    window, packed = Window(store), random_ids(7, 5)
    owners = [encode_owner(0, offset) for offset in range(5)]
    assert window.admit(packed[: 4 * 16], owners[:4]) == {}
    later = [encode_owner(1, offset) for offset in range(5)]
    assert window.admit(packed, later) == dict(enumerate(owners[:4]))
    store.close()
