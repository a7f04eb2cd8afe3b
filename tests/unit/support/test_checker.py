"""The checker finds every defect in a history, and none in a correct history."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.checker.checker import Verdict, judge
from tests.support.checker.id_sources import content_id, key_id
from tests.support.checker.record import Record
from tests.unit.support.histories import deduplicated, raw_histories, record, renumbered


def kinds(verdict: Verdict) -> set[str]:
    return set(verdict.defects)


@given(raw_histories)
def test_a_right_history_is_never_accused(raw: list[Record]) -> None:
    clean = deduplicated(raw)
    verdict = judge(raw, clean, key_id)
    verdict.assert_exactly_once(len(raw))
    assert verdict.expected == verdict.found == len(clean)


@given(raw_histories)
def test_a_history_in_which_everything_passed_is_right_only_when_observing(
    raw: list[Record],
) -> None:
    judge(raw, renumbered(raw), key_id, observe=True).assert_exactly_once(len(raw))
    repeats = len(raw) - len(deduplicated(raw))
    assert len(judge(raw, renumbered(raw), key_id).duplicated) == repeats


@given(raw_histories, st.data())
def test_a_missing_record_is_lost(raw: list[Record], data: st.DataObject) -> None:
    clean = deduplicated(raw)
    assume(clean)
    gone = clean.pop(data.draw(st.integers(0, len(clean) - 1)))
    verdict = judge(raw, clean, key_id)
    assert kinds(verdict) == {"lost"}
    assert [(each.partition, each.id) for each in verdict.lost] == [(gone.partition, key_id(gone))]


@given(raw_histories, st.data())
def test_all_missing_records_are_counted(raw: list[Record], data: st.DataObject) -> None:
    clean = deduplicated(raw)
    kept = [each for each in clean if data.draw(st.booleans())]
    verdict = judge(raw, kept, key_id)
    assert len(verdict.lost) == len(clean) - len(kept)
    assert kinds(verdict) <= {"lost"}


@given(raw_histories, st.data())
def test_a_record_that_stands_there_once_more_is_duplicated(
    raw: list[Record], data: st.DataObject
) -> None:
    clean = deduplicated(raw)
    assume(clean)
    twice = data.draw(st.sampled_from(clean))
    clean.insert(data.draw(st.integers(clean.index(twice) + 1, len(clean))), twice)
    verdict = judge(raw, renumbered(clean), key_id)
    assert len(verdict.duplicated) == 1
    assert not verdict.lost


@given(
    raw_histories,
    st.data(),
    st.sampled_from(
        [{"value": b"other"}, {"headers": (("h", b""),)}, {"timestamp_ms": 99}, {"value": b"\0"}]
    ),
)
def test_a_record_that_differs_is_altered_or_lost_and_foreign_without_id(
    raw: list[Record], data: st.DataObject, change: dict[str, object]
) -> None:
    clean = deduplicated(raw)
    assume(clean)
    place = data.draw(st.integers(0, len(clean) - 1))
    has_id = key_id(clean[place]) is not None
    clean[place] = replace(clean[place], **change)  # type: ignore[arg-type] # fields by name
    verdict = judge(raw, clean, key_id)
    if has_id:
        assert kinds(verdict) == {"altered"}
        assert next(iter(change)) in str(verdict)
    else:
        assert kinds(verdict) == {"lost", "foreign"}


@given(raw_histories, st.data())
def test_a_changed_key_is_lost_and_foreign(raw: list[Record], data: st.DataObject) -> None:
    clean = deduplicated(raw)
    assume(clean)
    place = data.draw(st.integers(0, len(clean) - 1))
    clean[place] = replace(clean[place], key=b"foreign")
    assert kinds(judge(raw, clean, key_id)) == {"lost", "foreign"}


def test_a_later_record_of_the_same_id_in_place_of_the_first_is_altered() -> None:
    raw = [record(0, b"a", b"first"), record(1, b"b"), record(2, b"a", b"second")]
    clean = renumbered([raw[2], raw[1]])
    verdict = judge(raw, clean, key_id)
    assert kinds(verdict) == {"altered"}
    assert "raw offset 0" in str(verdict)


@given(raw_histories, st.data())
def test_neighbours_that_changed_places_are_reordered(
    raw: list[Record], data: st.DataObject
) -> None:
    clean = [each for each in deduplicated(raw) if each.partition == 0]
    assume(len(clean) >= 2)
    place = data.draw(st.integers(0, len(clean) - 2))
    first, second = clean[place : place + 2]
    assume(replace(first, offset=0) != replace(second, offset=0))
    clean[place : place + 2] = second, first
    verdict = judge([each for each in raw if each.partition == 0], renumbered(clean), key_id)
    assert kinds(verdict) == {"reordered"}


@given(raw_histories, st.data())
def test_a_record_in_the_wrong_partition_is_lost_there_and_foreign_here(
    raw: list[Record], data: st.DataObject
) -> None:
    clean = deduplicated(raw)
    assume(clean)
    place = data.draw(st.integers(0, len(clean) - 1))
    clean[place] = replace(clean[place], partition=7)
    assert kinds(judge(raw, clean, key_id)) == {"lost", "foreign"}


@given(raw_histories, st.integers(0, 60))
def test_nothing_is_expected_from_beyond_the_committed_offset(
    raw: list[Record], committed: int
) -> None:
    up_to = {0: committed, 1: committed}
    due = [each for each in raw if each.offset < committed]
    judge(raw, deduplicated(due), key_id, up_to=up_to).assert_exactly_once(len(due))


def test_a_record_beyond_the_committed_offset_is_ahead() -> None:
    raw = [record(0, b"a"), record(1, b"b")]
    verdict = judge(raw, renumbered(raw), key_id, up_to={0: 1})
    assert kinds(verdict) == {"ahead"}
    assert kinds(judge(raw, renumbered(raw), key_id, up_to={})) == {"ahead"}


def test_a_record_before_the_committed_offset_is_lost() -> None:
    raw = [record(0, b"a"), record(1, b"b")]
    assert kinds(judge(raw, renumbered(raw[:1]), key_id, up_to={0: 2})) == {"lost"}


def test_a_lost_record_without_id_does_not_make_its_equals_reordered() -> None:
    raw = [record(0, None, b"x"), record(1, b"a"), record(2, None, b"x")]
    assert kinds(judge(raw, renumbered(raw[1:]), key_id)) == {"lost"}


def test_a_record_nobody_sent_is_foreign() -> None:
    stranger = record(0, b"z")
    assert kinds(judge([], [stranger], key_id)) == {"foreign"}


def test_the_offset_and_the_type_of_the_timestamp_may_differ() -> None:
    raw = [record(5, b"a")]
    judge(raw, [record(99, b"a")], key_id).assert_exactly_once(1)


def test_a_history_of_another_length_is_refused_also_an_empty_one() -> None:
    nothing = judge([], [], key_id)
    nothing.assert_exactly_once(0)
    raw = [record(place, b"k%d" % place) for place in range(3)]
    several = judge(raw, renumbered(raw), key_id)
    several.assert_exactly_once(3)
    several.assert_exactly_once(2, or_more=True)
    for verdict, of, or_more in ((nothing, 1, True), (several, 2, False), (several, 4, True)):
        with pytest.raises(AssertionError, match="input records were judged"):
            verdict.assert_exactly_once(of, or_more=or_more)


def test_a_failure_names_partition_offsets_and_id_of_some_and_counts_all() -> None:
    raw = [record(place, b"k%d" % place, partition=3) for place in range(9)]
    with pytest.raises(AssertionError) as failure:
        judge(raw, [], key_id).assert_exactly_once(9)
    text = str(failure.value)
    assert "9 lost" in text
    assert "partition 3, raw offset 0, id b'k0'" in text
    assert "and 4 more" in text


def test_a_long_id_is_shortened_in_the_message() -> None:
    verdict = judge([record(0, b"x" * 10_240)], [], key_id)
    assert len(str(verdict)) < 300


def test_a_million_equal_records_are_judged_in_linear_time() -> None:
    raw = [record(place, None, b"same") for place in range(20_000)]
    verdict = judge(raw, raw + raw, content_id)
    assert len(verdict.duplicated) == 20_000 * 2 - 1
    assert len(judge(raw, raw + raw, key_id).duplicated) == 20_000
