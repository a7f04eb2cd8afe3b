"""The ids of uncommitted output: how they are read, and which records they are taken for."""

from threading import Event
from typing import Any, cast

import pytest

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.extract import extractor_for, pack_id
from dedupe_worker.dedup.uncommitted_output import UncommittedIds, read_ids
from dedupe_worker.kafka.consumer import Batch, PartitionReader
from tests.unit.worker.strategies import message


class OutputReader:
    """A partition of ten records, read one by one."""

    def __init__(self) -> None:
        self._position = 0

    def seek(self, offset: int) -> None:
        self._position = offset

    def read(self, _max_records: int, _wait_seconds: float) -> Batch:
        self._position += 1
        record: Any = message(self._position - 1, b"%d" % self._position, b"")
        return Batch([record], self._position, 0)

    def check(self, _end: int) -> None: ...

    def close(self) -> None: ...


def test_each_batch_is_reported() -> None:
    reports: list[None] = []
    found = read_ids(
        lambda: cast("PartitionReader", OutputReader()),
        extractor_for(IdSource.model_validate({"from": "Key"})),
        start=0,
        end=10,
        stop=Event(),
        on_read=lambda: reports.append(None),
    )
    assert list(found) == [(offset, pack_id(b"%d" % (offset + 1))) for offset in range(10)]
    assert len(reports) == 10


@pytest.mark.parametrize(
    ("expired", "taken"), [(False, [[0, 1], [1, 2], [0]]), (True, [[0, 1], [], []])]
)
def test_with_expired_input_they_end_at_the_first_record_that_the_output_lacks(
    expired: bool, taken: list[list[int]]
) -> None:
    """Some are of expired input, it is not known which, and a later copy of such a record is its repeat."""
    uncommitted = UncommittedIds(
        [(n, pack_id(b"%d" % n)) for n in range(5)], end=90, expired=expired
    )
    batches = [([3, 4], [0, 1]), ([7, 2, 1], [2, 1]), ([0], [0])]
    found = [
        uncommitted.take(b"".join(pack_id(b"%d" % n) for n in ids), range(len(ids)), repeats, 10)
        for ids, repeats in batches
    ]
    assert found == taken


def test_with_expired_input_repeats_before_the_first_record_that_the_output_lacks_are_taken() -> (
    None
):
    uncommitted = UncommittedIds([(1, pack_id(b"1")), (2, pack_id(b"2"))], end=90, expired=True)
    ids = pack_id(b"2") + pack_id(b"7") + pack_id(b"1")
    assert uncommitted.take(ids, range(3), [2, 0], 10) == [0]
    assert not uncommitted.take(pack_id(b"1"), [0], [0], 13)


def test_the_position_of_a_commit_is_before_what_was_not_read_again() -> None:
    """Else a start after a stop in between takes the rest for duplicates of itself."""
    written = [(10 + place, pack_id(name)) for place, name in enumerate([b"a", b"b", b"a", b"c"])]
    uncommitted = UncommittedIds(written, end=90)
    assert (uncommitted.position(14), uncommitted.position(None)) == (10, 10)
    assert uncommitted.take(pack_id(b"a") + pack_id(b"b"), range(2), (0, 1), 50) == [0, 1]
    assert uncommitted.position(14) == 12
    assert uncommitted.take(pack_id(b"b") + pack_id(b"a"), range(2), (0, 1), 52) == [1]
    assert (uncommitted.position(14), uncommitted.position(None)) == (13, 13)
    assert uncommitted.take(pack_id(b"c") + pack_id(b"a"), range(2), (0, 1), 54) == [0]
    assert (uncommitted.position(14), uncommitted.position(None)) == (14, None)


def test_records_of_others_do_not_hold_the_position_of_a_commit() -> None:
    """Else a start after a crash takes what was committed meanwhile for uncommitted."""
    written = [(3, pack_id(b"other")), (4, pack_id(b"a")), (5, pack_id(b"another"))]
    uncommitted = UncommittedIds(written, end=90)
    assert uncommitted.position(6) == 3
    assert uncommitted.take(pack_id(b"a"), [0], [0], 50) == [0]
    assert uncommitted.position(6) == 5
    assert uncommitted.take(pack_id(b"new"), [0], (), 51) == [], "the output lacks it"
    assert uncommitted.position(7) == 7
    assert uncommitted.take(pack_id(b"another"), [0], [0], 90) == [], "its input is new"
