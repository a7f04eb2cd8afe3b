from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.errors import StoreCorrupt
from dedupe_worker.store.metadata import (
    NO_RECORDS,
    StoreMetadata,
    decode_metadata,
    encode_metadata,
    next_metadata,
)
from dedupe_worker.store.offset_ranges import decode_ranges, encode_ranges

numbers = st.integers(-(2**63), 2**63 - 1)
stamps = st.builds(
    StoreMetadata,
    output_position=numbers,
    input_offset=numbers,
    keys=numbers,
    first_seen_ms=numbers,
    last_seen_ms=numbers,
    truncated=st.booleans(),
    newest_ms=numbers,
    forgotten_ms=numbers,
)


@given(stamps)
def test_a_stamp_survives_writing_and_reading(stamp: StoreMetadata) -> None:
    assert decode_metadata(encode_metadata(stamp)) == stamp


@given(stamps, st.integers(0, 57).filter(lambda length: length != 42))
def test_a_part_of_a_stamp_is_damage(stamp: StoreMetadata, length: int) -> None:
    with pytest.raises(StoreCorrupt, match="rebuilt"):
        decode_metadata(encode_metadata(stamp)[:length])


@given(stamps, st.integers(0, 255).filter(lambda number: number != 2))
def test_another_format_is_refused(stamp: StoreMetadata, number: int) -> None:
    with pytest.raises(StoreCorrupt, match="format 2"):
        decode_metadata(bytes([number]) + encode_metadata(stamp)[1:])


def test_the_layout_is_the_one_that_is_written_down() -> None:
    stamp = StoreMetadata(
        output_position=1,
        input_offset=-1,
        keys=3,
        first_seen_ms=4,
        last_seen_ms=5,
        truncated=True,
        newest_ms=6,
        forgotten_ms=7,
    )
    assert encode_metadata(stamp).hex() == (
        "0201" + "0000000000000001" + "ffffffffffffffff" + "0000000000000003"
        "0000000000000004" + "0000000000000005" + "0000000000000006" + "0000000000000007"
    )


@given(stamps)
def test_a_stamp_of_the_first_format_is_read(stamp: StoreMetadata) -> None:
    """It had no timestamps: what is in it was new at most when it was seen, and nothing else is known."""
    older = b"\x01" + encode_metadata(stamp)[1:42]
    assert decode_metadata(older) == replace(stamp, newest_ms=stamp.last_seen_ms, forgotten_ms=0)


@pytest.mark.parametrize(("newest_ms", "expected"), [(4, 4), (5, 5), (2**40, 5), (None, 5)])
def test_a_timestamp_of_a_producer_ahead_counts_as_the_time_it_was_seen(
    newest_ms: int | None, expected: int
) -> None:
    """Else everything that comes after its generation is dropped would be late."""
    metadata = next_metadata(
        None,
        None,
        output_position=1,
        input_offset=1,
        added=1,
        seen_ms=5,
        newest_ms=newest_ms,
        input_topic="",
        last=NO_RECORDS,
        aged_ms=3,
    )
    assert (metadata.newest_ms, metadata.aged_to_ms, metadata.aged_ms) == (expected, 3, 3)


def test_of_many_ranges_the_newest_are_recorded_and_none_before_the_position() -> None:
    """A range that is not recorded is read again as if others had written it."""
    ranges = [OffsetRange(place * 10, place * 10 + 5) for place in range(100)]
    assert decode_ranges(encode_ranges(ranges, 0)) == ranges[-32:]
    assert decode_ranges(encode_ranges(ranges, 965)) == ranges[97:]
    assert decode_ranges(encode_ranges((), 0)) == []
