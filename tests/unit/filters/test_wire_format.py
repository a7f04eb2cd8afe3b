"""A filter record is read back as it was written, and what is none is not taken for one."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_filters.bloom import Bloom, build
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import ChunkFilter, Origin, decode, encode

OFFSETS = st.integers(0, (1 << 62) - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
SOURCES = st.builds(FilterSource.header, NAMES) | st.sampled_from(
    [FilterSource.json_path(path) for path in ("$.a", "$.order['c d'][0]", "$['ü\"']")]
)


@st.composite
def chunks(draw: st.DrawFn) -> ChunkFilter:
    first, last = sorted((draw(OFFSETS), draw(OFFSETS)))
    return ChunkFilter(
        topic_id=draw(st.binary(min_size=16, max_size=16).map(base64.b64encode)).decode(),
        source=draw(SOURCES),
        origin=draw(st.sampled_from(Origin)),
        first_offset=first,
        last_offset=last,
        records=draw(OFFSETS),
        unfiltered=draw(st.booleans()),
        bloom=Bloom(draw(st.integers(1, 16)), draw(st.binary(min_size=16, max_size=255))),
    )


A_CHUNK = ChunkFilter(
    topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
    source=FilterSource.header("country"),
    origin=Origin.TRANSACTION,
    first_offset=10,
    last_offset=19,
    records=10,
    unfiltered=False,
    bloom=build([b"DE"], 16),
)


@given(chunks())
def test_what_is_written_is_read_back(chunk: ChunkFilter) -> None:
    assert decode(encode(chunk)) == chunk


@given(st.binary(max_size=120))
def test_bytes_that_are_no_filter_are_no_error(value: bytes) -> None:
    decode(value)
    decode(b"\x01" + value)


@given(st.data())
def test_a_record_cut_short_is_none_or_has_all_but_some_of_its_bits(data: st.DataObject) -> None:
    whole = encode(A_CHUNK)
    cut = decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert cut is None or replace(cut, bloom=A_CHUNK.bloom) == A_CHUNK


@pytest.mark.parametrize("value", [None, b"", b"\x02" + encode(A_CHUNK)[1:]])
def test_nothing_and_a_later_format_are_unknown(value: bytes | None) -> None:
    assert decode(value) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"bloom": Bloom(0, b"\0" * 16)},
        {"bloom": Bloom(17, b"\0" * 16)},
        {"bloom": Bloom(1, b"")},
        {"first_offset": 20},
        {"first_offset": -1},
        {"records": -1},
    ],
)
def test_a_record_that_makes_no_sense_is_unknown(wrong: dict[str, object]) -> None:
    assert decode(encode(replace(A_CHUNK, **wrong))) is None  # type: ignore[arg-type] # of several fields


@pytest.mark.parametrize(
    ("origin", "records", "is_whole"),
    [
        (Origin.TRANSACTION, 10, True),
        (Origin.APPENDED, 10, True),
        (Origin.APPENDED, 9, False),
        (Origin.TRANSACTION, 11, False),
        (Origin.READ, 3, True),
        (Origin.READ, 0, True),
    ],
)
def test_a_filter_speaks_for_its_range_if_no_other_writer_can_have_come_between(
    origin: Origin, records: int, is_whole: bool
) -> None:
    assert replace(A_CHUNK, origin=origin, records=records).is_whole == is_whole
