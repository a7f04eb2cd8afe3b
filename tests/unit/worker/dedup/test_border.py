"""Marks in the batches of a worker, and records that are another worker's."""

from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_growth.mark import MARK_HEADER, Mark, encode_mark
from dedupe_ids.origin import HEADER, encode_origin
from dedupe_ids.route import Route, place_of_origin
from dedupe_kafka.offset_metadata import Cut
from dedupe_worker.dedup.border import Border, NoBorder, Part
from dedupe_worker.kafka.consumer import Batch
from tests.unit.crds.manifests import changed

STREAM = parse_manifest(changed({"spec.repartition": {"partitions": 4}}), "-")
START, MARK = Mark(epoch=0, partitions=4), Mark(epoch=1, partitions=6)


def record(offset: int, key: bytes | None = b"k", *, came_from: int = 0) -> Message:
    headers = [(HEADER, encode_origin("raw", came_from, offset))]
    return message(offset, key, b"v", headers)


def message(
    offset: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
) -> Message:
    return Message(
        topic="between",
        partition=0,
        offset=offset,
        key=key,
        value=value,
        headers=headers,  # type: ignore[arg-type] # a list, as a consumer's records have it
    )


def mark(offset: int, of: Mark = MARK) -> Message:
    return message(offset, None, None, [(MARK_HEADER, encode_mark(of))])


class Rules:
    """Makes the rule for a number of partitions, and remembers for which."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def of(self, count: int) -> Route:
        self.counts.append(count)
        return Route(STREAM.spec, RepartitionBy.ID, count, place_of_origin)


def border(
    passed: Mark = START,
    cut: Cut | None = None,
    partition: int = 0,
    rules: Rules | None = None,
    done: Callable[[], int] = lambda: 0,
) -> Border:
    made = (rules or Rules()).of
    return Border("between", partition, passed=passed, cut=cut, route_of=made, done=done)


def shape(parts: Sequence[Part]) -> list[tuple[list[int | None], int, int, Mark | None]]:
    return [
        ([each.offset() for each in part.records], part.next_offset, part.behind, part.mark)
        for part in parts
    ]


# -- parts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [[], [record(3), record(5)]])
def test_a_batch_without_marks_is_one_part(records: list[Message]) -> None:
    batch = Batch(records, 9, 4)
    wanted = [([each.offset() for each in records], 9, 4, None)]
    assert shape([*border().parts(batch)]) == wanted
    assert shape([*NoBorder().parts(batch)]) == wanted


def test_a_mark_is_alone_and_the_offset_after_it_is_next() -> None:
    batch = Batch([record(3), record(5), mark(6), record(8)], 12, behind=10)
    assert shape([*border().parts(batch)]) == [
        ([3, 5], 6, 12, None),
        ([], 7, 11, MARK),
        ([8], 12, 10, None),
    ]


def test_marks_at_the_ends_of_a_batch_and_next_to_each_other_make_no_empty_parts() -> None:
    second = Mark(2, 8)
    batch = Batch([mark(3), record(4), mark(5), mark(6, second)], 9, behind=0)
    assert shape([*border().parts(batch)]) == [
        ([], 4, 3, MARK),
        ([4], 5, 2, None),
        ([], 6, 1, MARK),
        ([], 7, 0, second),
    ]


def test_without_routers_a_mark_is_a_record_like_any_other() -> None:
    batch = Batch([record(3), mark(4)], 5, 0)
    assert shape([*NoBorder().parts(batch)]) == [([3, 4], 5, 0, None)]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 3))
def test_the_parts_together_are_the_batch(marks: list[bool], behind: int) -> None:
    records = [mark(2 * row) if is_mark else record(2 * row) for row, is_mark in enumerate(marks)]
    next_offset = 2 * len(marks) + 5
    parts = [*border().parts(Batch(records, next_offset, behind))]
    seen = 0
    for part in parts:
        assert (part.mark is None) == bool(part.records)
        seen += len(part.records) or 1
        assert part.behind == behind + len(records) - seen
        later = records[seen:]
        if part.mark is not None:
            assert part.next_offset == (records[seen - 1].offset() or 0) + 1
        else:
            assert part.next_offset == (later[0].offset() if later else next_offset)
    assert seen == len(records)
    given_out = [each for part in parts for each in part.records]
    assert given_out == [each for each, is_mark in zip(records, marks, strict=True) if not is_mark]


# -- epochs ------------------------------------------------------------------------------------------


def test_a_mark_begins_its_epoch_and_cuts_the_output_there() -> None:
    rules = Rules()
    at = border(rules=rules)
    at.pass_mark(MARK, 40)
    assert at.cut == Cut(1, 40)
    assert rules.counts == [6]
    at.pass_mark(Mark(2, 8), 70)
    assert (at.cut, rules.counts) == (Cut(2, 70), [6, 8])


@pytest.mark.parametrize("again", [MARK, START, Mark(1, 9)])
def test_a_mark_of_an_epoch_that_has_begun_changes_nothing(again: Mark) -> None:
    rules = Rules()
    at = border(rules=rules)
    at.pass_mark(MARK, 40)
    at.pass_mark(again, 70)
    assert (at.cut, rules.counts) == (Cut(1, 40), [6])


def test_a_worker_goes_on_with_the_cut_that_it_has_committed() -> None:
    at = border(Mark(1, 6), Cut(1, 40))
    at.pass_mark(MARK, 70)
    assert at.cut == Cut(1, 40)
    assert not at.unrecorded


def test_an_epoch_that_is_done_needs_no_mark() -> None:
    at = border(Mark(1, 6), None)
    at.pass_mark(MARK, 70)
    assert at.cut is None


def test_a_partition_that_was_added_passes_its_first_epoch_by_learning() -> None:
    at = border(Mark(1, 6), None, partition=5)
    at.learnt(1, 40)
    assert (at.cut, at.unrecorded) == (Cut(1, 40), True)


@pytest.mark.parametrize(
    ("cut", "epoch"), [(None, 0), (Cut(1, 30), 1), (Cut(2, 30), 1)], ids=["old", "again", "later"]
)
def test_what_is_recorded_is_not_learnt_again(cut: Cut | None, epoch: int) -> None:
    at = border(Mark(1, 6), cut)
    at.learnt(epoch, 40)
    assert (at.cut, at.unrecorded) == (cut, False)


def test_without_routers_nothing_is_cut() -> None:
    at = NoBorder()
    at.pass_mark(MARK, 40)
    assert (at.cut, at.unrecorded) == (None, False)


# -- records of others ---------------------------------------------------------------------------------

KEYS = [b"%d" % number for number in range(40)]
RECORDS = [record(offset, key) for offset, key in enumerate(KEYS)]


def owners(records: Sequence[Message], count: int = 6) -> list[int]:
    return Rules().of(count).of(records).partitions


@pytest.mark.parametrize("at", [border(), NoBorder()])
def test_before_the_first_growth_all_records_are_ones_own(at: NoBorder) -> None:
    own, strays = at.strays(RECORDS)
    assert own is RECORDS
    assert strays == []


def test_a_record_of_another_partition_is_sent_on_to_it_as_it_came() -> None:
    at = border()
    at.pass_mark(MARK, 40)
    own, strays = at.strays(RECORDS)
    wanted = owners(RECORDS)
    assert set(wanted) == set(range(6)), "all partitions occur"
    assert own == [each for each, owner in zip(RECORDS, wanted, strict=True) if owner == 0]
    assert [(sent.record, sent.partition) for sent in strays] == [
        (each, owner) for each, owner in zip(RECORDS, wanted, strict=True) if owner != 0
    ]
    assert {sent.topic for sent in strays} == {"between"}
    assert [list(sent.headers) for sent in strays] == [[]] * len(strays), "nothing is added"


def test_no_record_is_routed_again_once_the_growth_is_done() -> None:
    done = [1, 0, 0]  # in turn, from the end
    at = border(Mark(1, 6), done=done.pop)
    for _ in range(2_000):
        assert at.strays(RECORDS)[1]
    for _ in range(2):
        own, strays = at.strays(RECORDS)
        assert own is RECORDS
        assert strays == []
    assert done == [], "it looked each thousand batches, and no more after that"


def test_a_batch_of_ones_own_records_is_not_copied() -> None:
    own = [each for each, owner in zip(RECORDS, owners(RECORDS), strict=True) if owner == 5]
    found, strays = border(Mark(1, 6), partition=5).strays(own)
    assert found is own
    assert strays == []


def test_a_record_without_id_belongs_to_where_its_producer_wrote_it() -> None:
    """Not to where a router wrote it: then it would be sent on for ever."""
    records = [record(offset, None, came_from=offset) for offset in range(12)]
    wanted = owners(records)
    assert len(set(wanted)) > 1
    for partition in range(6):
        own, _ = border(Mark(1, 6), partition=partition).strays(records)
        assert own == [each for each, to in zip(records, wanted, strict=True) if to == partition]
