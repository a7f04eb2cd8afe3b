"""The data source, as far as it goes without Kafka and Spark: options, shares of the work, Arrow batches."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, In, StringContains
from pyspark.sql.pandas.types import to_arrow_schema

from dedupe_filters.values import FilterSource, Wanted
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.offsets import OffsetRange
from dedupe_pipeline.datasource.arrow import NO_COLUMNS, AddedColumns, spark_schema, to_arrow
from dedupe_pipeline.datasource.batch import FilteringReader
from dedupe_pipeline.datasource.options import ReadOptions, read_options
from dedupe_pipeline.datasource.split import ends_within, split

NEEDED = {"bootstrapServers": "localhost:1", "topic": "t"}


def options(**given: str) -> ReadOptions:
    return read_options({**NEEDED, **given})


# -- options -------------------------------------------------------------------------------------------


def test_options_have_defaults_and_any_case() -> None:
    plain = read_options({"BOOTSTRAPSERVERS": "localhost:1", "Topic": "t"})

    assert plain == options()
    assert (plain.starting, plain.ending, plain.min_partitions) == ("earliest", "latest", 1)
    assert (plain.selection.wanted, plain.selection.source) == (None, None)


@pytest.mark.parametrize(
    ("text", "values"),
    [("DE", ["DE"]), ('["DE", "a,b"]', ["DE", "a,b"]), ('["[x]"]', ["[x]"]), ("[]", [])],
)
def test_one_value_or_several_can_be_wanted(text: str, values: list[str]) -> None:
    assert options(filter=text).selection.wanted == Wanted.of(values)


def test_what_else_can_be_said() -> None:
    said = options(
        filter="DE",
        matchUnfiltered="TRUE",
        jsonPath="$.country",
        filterColumn="country",
        startingOffsets='{"0": 7, "1": 0}',
        minPartitions="8",
        maxRecordsPerTrigger="100",
        gapOffsets="0",
        **{"kafka.sasl.password": "secret"},
    )

    assert said.selection.wanted == Wanted.of(["DE"], unfiltered=True)
    assert said.selection.source == FilterSource.json_path("$['country']")
    assert said.starting == {0: 7, 1: 0}
    assert said.selection.properties == {"sasl.password": "secret"}
    assert "secret" not in repr(said)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"filterr": "DE"}, "option filterr is unknown; known are bootstrapServers"),
        ({"topic": ""}, "option topic is missing"),
        ({"filter": ""}, "is neither a value nor a JSON array"),
        ({"filter": '["DE", 1]'}, "is neither a value nor a JSON array"),
        ({"filter": '["DE"'}, "is neither a value nor a JSON array"),
        ({"matchUnfiltered": "true"}, "option matchUnfiltered needs option filter"),
        ({"matchUnfiltered": "yes", "filter": "DE"}, "neither true nor false"),
        ({"header": "a", "jsonPath": "$.a"}, "exclude each other; remove one"),
        ({"jsonPath": "$..a"}, "option jsonPath: .* must be a JSONPath of names"),
        ({"timestampMsColumn": "offset"}, "option timestampMsColumn: 'offset' is empty or one of"),
        ({"timestampMsColumn": "a", "filterColumn": "a"}, "option filterColumn: 'a' is empty or"),
        ({"pushFilters": "true"}, "pushFilters needs option filterColumn: set it as well"),
        ({"filterColumn": "value"}, "is empty or one of partition"),
        ({"startingOffsets": "first"}, "option startingOffsets: 'first' is neither"),
        ({"startingOffsets": "{}"}, "neither earliest nor latest"),
        ({"endingOffsets": '{"0": -1}'}, "neither earliest nor latest"),
        ({"endingOffsets": '{"0": true}'}, "neither earliest nor latest"),
        ({"minPartitions": "0"}, "not a whole number of at least 1"),
        ({"maxRecordsPerTrigger": "-5"}, "not a whole number of at least 1"),
    ],
)
def test_an_option_that_can_not_be_is_named(given: Mapping[str, str], told: str) -> None:
    with pytest.raises(InvalidConfig, match=told):
        options(**given)


# -- conditions on the filter column -------------------------------------------------------------------


def wanted_after(before: ReadOptions, *conditions: object) -> Wanted | None:
    reader = FilteringReader(before)
    left = list(reader.pushFilters(list(conditions)))  # type: ignore[arg-type] # filters all
    assert left == list(conditions)  # Spark checks again
    return reader._options.selection.wanted  # noqa: SLF001 (what the plan is made from)


def test_conditions_on_the_filter_column_are_wanted_values() -> None:
    plain = options(filterColumn="c", pushFilters="true")

    assert plain.push_filters
    assert wanted_after(plain) is None
    assert wanted_after(plain, EqualTo(("c",), "DE")) == Wanted.of(["DE"])
    assert wanted_after(plain, In(("c",), ("DE", "FR"))) == Wanted.of(["DE", "FR"])
    assert wanted_after(plain, In(("c",), ("DE", "FR")), EqualTo(("c",), "FR")) == Wanted.of(["FR"])


def test_other_conditions_are_left_to_spark() -> None:
    plain = options(filterColumn="c")

    assert wanted_after(plain, EqualTo(("value",), "DE"), StringContains(("c",), "D")) is None
    assert wanted_after(plain, In(("c",), ("DE", None))) is None


def test_a_condition_narrows_what_the_option_says() -> None:
    said = options(filterColumn="c", filter='["DE", "FR"]', matchUnfiltered="true")

    assert wanted_after(said, In(("c",), ("FR", "IT"))) == Wanted.of(["FR"])
    assert wanted_after(said, EqualTo(("c",), "IT")) == Wanted.of([])


# -- shares --------------------------------------------------------------------------------------------

SPANS = st.lists(st.integers(0, 100), max_size=6, unique=True).map(
    lambda cuts: [
        OffsetRange(a, b) for a, b in zip(sorted(cuts)[::2], sorted(cuts)[1::2], strict=False)
    ]
)
WORK = st.dictionaries(st.integers(0, 3), SPANS, max_size=3)


def offsets(ranges: object) -> list[int]:
    return [offset for each in ranges for offset in range(each.low, each.end)]  # type: ignore[attr-defined] # of ranges


@given(WORK, st.integers(1, 12))
def test_shares_are_of_one_partition_each_and_together_all_there_is(
    work: dict[int, list[OffsetRange]], tasks: int
) -> None:
    shares = split(work, tasks)

    for partition, ranges in work.items():
        parts = [offsets(part) for of, part in shares if of == partition]
        assert [offset for part in parts for offset in part] == offsets(ranges)
        assert all(parts)
        assert len({len(part) for part in parts[:-1]}) <= 1
    assert len(shares) <= tasks + len(work)


@given(WORK, st.integers(1, 50))
def test_a_micro_batch_is_within_its_limit_and_gets_on(
    work: dict[int, list[OffsetRange]], limit: int
) -> None:
    starts = dict.fromkeys(work, 0)
    todo = {partition: offsets(ranges) for partition, ranges in work.items()}
    ends = dict.fromkeys(work, 120)

    for _ in range(400):
        now = ends_within(work, ends, starts, limit)
        taken = {p: [o for o in todo[p] if o < now[p]] for p in work}
        assert sum(map(len, taken.values())) <= limit
        assert all(starts[p] <= now[p] <= ends[p] for p in work)
        todo = {p: [o for o in todo[p] if o >= now[p]] for p in work}
        work = {
            p: [OffsetRange(max(s.low, now[p]), s.end) for s in ranges if s.end > now[p]]
            for p, ranges in work.items()
        }
        starts = now
        if now == ends:
            break
    assert starts == ends
    assert not any(todo.values())


# -- Arrow ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "added",
    [
        NO_COLUMNS,
        AddedColumns(value="country"),
        AddedColumns(timestamp_ms="ms"),
        AddedColumns(value="country", timestamp_ms="ms"),
    ],
    ids=str,
)
def test_batches_have_the_schema_that_spark_checks_for(added: AddedColumns) -> None:
    record = Message(topic="t", partition=3, offset=9, headers=[("h", b"x")], timestamp=(1, 5))

    batch = to_arrow([record], [b"DE"], added)

    assert to_arrow_schema(spark_schema(added)).equals(batch.schema)


def test_rows_are_the_records_as_they_are() -> None:
    long_ago, now = -62_135_596_800_000, 1_700_000_000_123
    records = [
        Message(
            topic="t",
            partition=3,
            offset=9,
            key=b"k",
            value=b"\xff",
            headers=[("a", b"1"), ("a", None), ("b", b"")],
            timestamp=(1, now),
        ),
        Message(topic="t", partition=3, offset=11, timestamp=(1, long_ago)),
        Message(topic="t", partition=3, offset=12, value=b"", headers=[("c", b"2")]),
    ]

    rows = to_arrow(records, [b"DE", None, b"\xff"], AddedColumns(value="country")).to_pylist()

    assert [row["offset"] for row in rows] == [9, 11, 12]
    assert {row["partition"] for row in rows} == {3}
    assert rows[0]["timestamp"] == datetime.fromtimestamp(now / 1000, UTC)
    assert rows[1]["timestamp"] == datetime(1, 1, 1, tzinfo=UTC)
    assert [row["key"] for row in rows] == [b"k", None, None]
    assert [row["value"] for row in rows] == [b"\xff", None, b""]
    pairs = [row["headers"] and [(h["key"], h["value"]) for h in row["headers"]] for row in rows]
    assert pairs == [[("a", b"1"), ("a", None), ("b", b"")], None, [("c", b"2")]]
    assert [row["country"] for row in rows] == ["DE", None, None]


@pytest.mark.parametrize(
    ("timestamp_ms", "shown"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-2, datetime(1969, 12, 31, 23, 59, 59, 998_000, tzinfo=UTC)),
        (-62_135_596_800_000, datetime(1, 1, 1, tzinfo=UTC)),
        (253_402_300_799_999, datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        (-1, None),
        (-62_135_596_800_001, None),
        (253_402_300_800_000, None),
        (1_764_000_000_000_000_000, None),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_a_timestamp_that_not_all_can_represent_is_null(
    timestamp_ms: int, shown: datetime | None
) -> None:
    """The number as Kafka has it is kept, so that no record stops a read for ever."""
    record = Message(topic="t", partition=3, offset=9, timestamp=(1, timestamp_ms))

    [row] = to_arrow([record], None, AddedColumns(timestamp_ms="ms")).to_pylist()

    assert (row["timestamp"], row["ms"]) == (shown, timestamp_ms)


def test_a_record_without_a_timestamp_has_none() -> None:
    record = Message(topic="t", partition=3, offset=9, timestamp=(0, 0))

    [row] = to_arrow([record], None, AddedColumns(timestamp_ms="ms")).to_pylist()

    assert (row["timestamp"], row["ms"]) == (None, None)


def test_without_any_headers_the_column_is_null() -> None:
    records = [Message(topic="t", partition=0, offset=offset) for offset in range(3)]

    assert to_arrow(records, None, NO_COLUMNS).column("headers").null_count == 3
