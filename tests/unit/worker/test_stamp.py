import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.errors import StoreCorrupt
from dedupe_worker.stamp import Stamp, decode_stamp, encode_stamp

numbers = st.integers(-(2**63), 2**63 - 1)
stamps = st.builds(
    Stamp,
    output_position=numbers,
    input_offset=numbers,
    keys=numbers,
    first_seen_ms=numbers,
    last_seen_ms=numbers,
    truncated=st.booleans(),
)


@given(stamps)
def test_a_stamp_survives_writing_and_reading(stamp: Stamp) -> None:
    assert decode_stamp(encode_stamp(stamp)) == stamp


@given(stamps, st.integers(0, 41))
def test_a_part_of_a_stamp_is_damage(stamp: Stamp, length: int) -> None:
    with pytest.raises(StoreCorrupt, match="rebuilt"):
        decode_stamp(encode_stamp(stamp)[:length])


@given(stamps, st.integers(0, 255).filter(lambda number: number != 1))
def test_another_format_is_refused(stamp: Stamp, number: int) -> None:
    with pytest.raises(StoreCorrupt, match="format 1"):
        decode_stamp(bytes([number]) + encode_stamp(stamp)[1:])


def test_the_layout_is_the_one_that_is_written_down() -> None:
    stamp = Stamp(
        output_position=1,
        input_offset=-1,
        keys=3,
        first_seen_ms=4,
        last_seen_ms=5,
        truncated=True,
    )
    assert encode_stamp(stamp).hex() == (
        "0101" + "0000000000000001" + "ffffffffffffffff" + "0000000000000003"
        "0000000000000004" + "0000000000000005"
    )
