"""How what has no filters is cut into ranges that have."""

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_filters.backfill import RangeCutter
from dedupe_filters.bloom import may_contain
from dedupe_filters.builder import FilterBuilder
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import ChunkFilter, Origin, decode
from dedupe_kafka.offsets import OffsetRange

SIZE = 16


def record(offset: int, value: bytes | None) -> Message:
    headers: list[tuple[str, str | bytes | None]] | None = None if value is None else [("v", value)]
    return Message(topic="t", partition=0, offset=offset, headers=headers, timestamp=(1, 9))


def cutter(ranges: list[OffsetRange]) -> RangeCutter:
    return RangeCutter(ranges, FilterBuilder(FilterSource.header("v"), SIZE, "id"), SIZE)


def cut(one: RangeCutter, records: list[Message], batch: int = 1000) -> list[ChunkFilter]:
    made = []
    for at in range(0, len(records), batch):
        made += list(one.add(records[at : at + batch]))
    made += list(one.finish())
    chunks = [decode(each.value) for each in made]
    return [chunk for chunk in chunks if chunk is not None]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[OffsetRange], list[Message]]:
    cuts = sorted(draw(st.sets(st.integers(0, 4000), max_size=8)))
    ranges = [OffsetRange(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    step = draw(st.integers(1, 5))
    values = draw(st.integers(1, 100))
    records = [
        record(offset, b"%d" % (offset % values) if offset % 7 else None)
        for each in ranges
        for offset in range(each.low, each.end)
        if offset % step == 0
    ]
    return ranges, records


@given(cases(), st.integers(1, 3000))
def test_the_ranges_cover_the_spans_once_and_hold_what_is_in_them(
    case: tuple[list[OffsetRange], list[Message]], batch: int
) -> None:
    ranges, records = case
    one = cutter(ranges)

    chunks = cut(one, records, batch)

    covered = [o for c in chunks for o in range(c.first_offset, c.last_offset + 1)]
    assert covered == [o for each in ranges for o in range(each.low, each.end)]
    assert all(chunk.origin is Origin.READ for chunk in chunks)
    for chunk in chunks:
        inside = [
            r for r in records if chunk.first_offset <= (r.offset() or 0) <= chunk.last_offset
        ]
        values = [FilterSource.header("v").extractor()(r) for r in inside]
        assert chunk.records == len(inside)
        assert chunk.unfiltered == (None in values)
        assert all(may_contain(chunk.bloom, value) for value in values if value is not None)
    assert one.records == len(records)
    assert one.done == len(covered)


def test_a_range_ends_when_it_has_enough_records() -> None:
    records = [record(offset, b"same") for offset in range(25_000)]

    chunks = cut(cutter([OffsetRange(0, 25_000)]), records)

    assert [chunk.records for chunk in chunks] == [10_000, 10_000, 5_000]


def test_a_range_ends_early_when_its_filter_has_enough_values() -> None:
    records = [record(offset, b"%d" % (offset // 50)) for offset in range(5_000)]

    chunks = cut(cutter([OffsetRange(0, 5_000)]), records)

    assert [chunk.records for chunk in chunks] == [2_000, 2_000, 1_000]


def test_a_range_without_records_is_known_to_have_none() -> None:
    (chunk,) = cut(cutter([OffsetRange(5, 9)]), [])

    assert (chunk.first_offset, chunk.last_offset, chunk.records) == (5, 8, 0)
    assert not chunk.unfiltered
