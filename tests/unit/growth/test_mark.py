"""The mark in the repartition topic, among records of producers."""

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_growth.mark import MARK_HEADER, Mark, encode_mark, find_marks, mark_of
from dedupe_ids.origin import HEADER, encode_origin
from dedupe_kafka.headers import Header

MARK = Mark(epoch=1, partitions=6)
ALONE: list[Header] = [(MARK_HEADER, b"1:6")]


def record(
    headers: list[Header] | None, *, key: bytes | None = None, value: bytes | None = None
) -> Message:
    listed = headers  # a consumer's records have a list, or None
    return Message(topic="between", partition=0, offset=7, key=key, value=value, headers=listed)  # type: ignore[arg-type]


@given(st.integers(0, 2**31), st.integers(1, 2**31))
def test_what_is_written_is_found(epoch: int, partitions: int) -> None:
    mark = Mark(epoch, partitions)
    assert mark_of(record([(MARK_HEADER, encode_mark(mark))])) == mark


@pytest.mark.parametrize(
    "other",
    [
        record(ALONE, key=b"k"),
        record(ALONE, key=b""),
        record(ALONE, value=b"v"),
        record(ALONE, value=b""),
        record(None),
        record([]),
        record([*ALONE, ("other", b"x")]),
        record([*ALONE, *ALONE]),
        record([("dedupe-epochs", b"1:6")]),
        record([(MARK_HEADER, None)]),
    ],
)
def test_a_record_with_anything_else_is_no_mark(other: Message) -> None:
    assert mark_of(other) is None
    assert find_marks([other]) == []


@pytest.mark.parametrize(
    "text", [b"", b":", b"1", b"1:", b":6", b"-1:6", b"1:6:2", b"1:6 ", b"a:b", "²:6".encode()]
)
def test_a_header_of_another_form_is_no_mark(text: bytes) -> None:
    assert mark_of(record([(MARK_HEADER, text)])) is None


def test_no_producer_can_write_a_mark_through_a_router() -> None:
    """It adds the header of the origin to whatever a producer wrote, also if that is a mark."""
    origin = (HEADER, encode_origin("raw", 0, 7))
    assert mark_of(record([*ALONE, origin])) is None
    assert mark_of(record([origin])) is None, "of a record without key, value and headers"


def test_marks_are_found_among_records_with_and_without_values() -> None:
    batch = [
        record(None, value=b"v"),
        record(ALONE),
        record(ALONE, key=b"deleted"),
        record(ALONE),
        record(None, value=b""),
    ]
    assert find_marks(batch) == [1, 3]
    assert find_marks([]) == []
    assert find_marks(batch[:1]) == []
