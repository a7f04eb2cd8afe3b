"""What is said of a range is what was added to it."""

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_filters.bloom import full, may_contain
from dedupe_filters.builder import FilterBuilder
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import ChunkFilter, Origin, decode

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
VALUES = st.lists(st.none() | st.binary(min_size=1, max_size=3), max_size=40)


def record(value: bytes | None, timestamp_ms: int = 5) -> Message:
    """A record with a value in its header, if it has one."""
    headers: list[tuple[str, str | bytes | None]] | None = None if value is None else [("v", value)]
    return Message(topic="t", partition=0, offset=0, headers=headers, timestamp=(1, timestamp_ms))


def collector(size: int = 16) -> FilterBuilder:
    return FilterBuilder(FilterSource.header("v"), size, TOPIC_ID)


def finished(one: FilterBuilder, first: int = 0, last: int = 99) -> ChunkFilter:
    chunk = decode(one.finish(first, last, Origin.TRANSACTION).value)
    assert chunk is not None
    return chunk


@given(st.lists(VALUES, max_size=4))
def test_a_filter_holds_the_values_of_its_own_range_and_no_other(
    ranges: list[list[bytes | None]],
) -> None:
    one = collector()

    for values in ranges:
        one.add([record(value) for value in values])
        chunk = finished(one)

        assert chunk.records == len(values)
        assert chunk.unfiltered == (None in values)
        assert all(may_contain(chunk.bloom, value) for value in values if value is not None)
        assert any(chunk.bloom.bits) == any(value is not None for value in values)


def test_a_range_with_more_values_than_a_filter_takes_still_says_which_have_none() -> None:
    one = collector()
    one.add([record(b"%d" % number) for number in range(2 * full(16))])
    one.add([record(None)])

    chunk = finished(one)

    assert chunk.unfiltered
    assert set(chunk.bloom.bits) == {0xFF}


def test_an_aborted_transaction_leaves_nothing_behind() -> None:
    one = collector()
    one.add([record(b"DE"), record(None)])
    one.clear()

    chunk = finished(one)

    assert (chunk.records, chunk.unfiltered, any(chunk.bloom.bits)) == (0, False, False)


def test_a_filter_is_as_old_as_the_youngest_record_it_speaks_of() -> None:
    one = collector()
    one.add([record(b"a", 7), record(b"b", 9), record(b"c", -1)])

    assert one.finish(0, 2, Origin.TRANSACTION).timestamp_ms == 9


def test_a_time_before_1970_is_not_taken_for_now() -> None:
    one = collector()
    one.add([record(b"a", -1)])

    assert one.finish(0, 0, Origin.TRANSACTION).timestamp_ms == 1
