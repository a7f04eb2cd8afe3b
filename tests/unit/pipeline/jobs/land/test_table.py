"""What a table lacks or refuses, from its columns and its offsets alone."""

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.landed_offsets import LandedOffsets
from dedupe_pipeline.jobs.land.table import added_fields
from dedupe_pipeline.jobs.land.table_job import check_belongs

LANDED = LandedOffsets(topic="orders", topic_id="first", offsets={0: 10, 1: 20})


def json_of(**fields: IntegerType | LongType | StringType) -> StructType:
    inner = StructType([StructField(name, kind) for name, kind in fields.items()])
    return StructType([StructField("key", StringType()), StructField("json", inner)])


def offsets(**given: object) -> TopicOffsets:
    fields = {"topic": "orders", "id": "first", "lows": {0: 0, 1: 0}, "ends": {0: 15, 1: 20}}
    return TopicOffsets(**{**fields, **given})  # type: ignore[arg-type] # the fields above


def test_fields_that_a_table_lacks_are_added_at_their_path() -> None:
    present, wanted = json_of(n=IntegerType()), json_of(m=StringType(), N=IntegerType())

    assert list(added_fields(present, wanted)) == [(("json", "m"), StringType())]
    assert list(added_fields(wanted, wanted)) == []


def test_a_column_of_the_table_that_land_does_not_write_is_no_obstacle() -> None:
    present = StructType([*json_of(n=IntegerType()), StructField("note", StringType())])

    assert list(added_fields(present, json_of(n=IntegerType()))) == []


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        (json_of(n=LongType()), r"json\.n is int in the table, and would be bigint"),
        (json_of(m=IntegerType()), r"the table has json\.n, and --json-schema has not"),
        (StructType([StructField("key", StringType())]), "the table has json, and"),
    ],
)
def test_a_field_that_changes_or_goes_is_refused_by_name(wanted: StructType, refusal: str) -> None:
    with pytest.raises(LandingRefused, match=refusal):
        list(added_fields(json_of(n=IntegerType()), wanted))


def test_offsets_are_read_as_they_were_written() -> None:
    text = '{"topic": "orders", "topicId": "first", "offsets": {"0": 10, "1": 20}}'
    assert LANDED.to_json() == text, "tables of earlier releases have it"
    assert LandedOffsets.from_json(text) == LANDED
    assert LANDED.with_ends({1: 25, 2: 3}).offsets == {0: 10, 1: 25, 2: 3}
    assert LANDED.with_ends({1: 25}).total == LANDED.total + 5


@pytest.mark.parametrize(
    ("present", "refusal"),
    [
        (offsets(topic="returns"), "has the records of topic 'orders', not of 'returns'"),
        (offsets(id="second"), "was deleted and created again"),
        (
            offsets(ends={0: 9, 1: 20}),
            "partition 0 up to before offset 10, and the topic ends at 9",
        ),
        (offsets(lows={0: 11, 1: 0}), "lacks offsets 10 to 10 of partition 0"),
        (
            offsets(lows={0: 0, 1: 0, 2: 1}, ends={0: 10, 1: 20, 2: 5}),
            "lacks offsets 0 to 0 of partition 2",
        ),
    ],
)
def test_a_topic_that_does_not_continue_the_table_is_refused(
    present: TopicOffsets, refusal: str
) -> None:
    check_belongs("t", LANDED, offsets())
    with pytest.raises(LandingRefused, match=refusal):
        check_belongs("t", LANDED, present)
