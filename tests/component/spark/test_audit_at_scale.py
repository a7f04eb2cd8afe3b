"""What the audit computes in many tasks is what one task would: in chunks, and in ranges of offsets."""

import random
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

import pytest
from pyspark.sql import Row, SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.jobs.audit.in_order import with_stream_time, with_value_before
from dedupe_pipeline.jobs.audit.parallel import read_tasks, shuffling
from dedupe_pipeline.jobs.audit.positions import in_task, with_positions
from dedupe_pipeline.source import read_ranges
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.spark.session import spark
from tests.support.traffic.traffic import order, produce_in_transaction

__all__ = ["spark"]

SEED = 7
NOW = 900
RECORDS = "place INT, offset BIGINT, time_ms BIGINT, value BIGINT"


def records() -> list[Row]:
    """Return records of three places, with gaps of offsets that are longer than a chunk."""
    drawn = random.Random(SEED)
    rows = []
    for place in range(3):
        offset = drawn.randrange(20)
        for _ in range(60):
            offset += drawn.choice((1, 1, 1, 2, 9))
            time = drawn.randrange(1_000)
            rows.append(Row(place=place, offset=offset, time_ms=time, value=drawn.randrange(99)))
    drawn.shuffle(rows)
    return rows


def by_place(rows: list[Row]) -> Iterator[tuple[int, list[Row]]]:
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["offset"]):
        found[row["place"]].append(row)
    yield from found.items()


BEFORE = {0: 500, 2: 0}


@pytest.mark.parametrize("chunk", [matrix(1), 4, matrix(1 << 17)])
def test_chunks_change_nothing(spark: SparkSession, chunk: int) -> None:
    rows = records()
    table = spark.createDataFrame(rows, RECORDS)

    before = with_value_before(table, BEFORE, chunk=chunk).collect()
    timed = with_stream_time(table, NOW, BEFORE, chunk=chunk).collect()

    values, times = {}, {}
    for place, of in by_place(rows):
        last, newest = BEFORE.get(place), BEFORE.get(place)
        for at, row in enumerate(of):
            values[place, row["offset"]], last = last, row["value"]
            near = [of[n]["time_ms"] for n in (max(at - 1, 0), at, min(at + 1, len(of) - 1))]
            if median(near) <= NOW:
                newest = max(newest or 0, median(near))
            times[place, row["offset"]] = newest
    assert {(row["place"], row["offset"]): row["before"] for row in before} == values
    assert {(row["place"], row["offset"]): row["stream_ms"] for row in timed} == times


def test_positions_count_records_whatever_the_ranges_and_gaps_are(
    spark: SparkSession, streams: CreateStream
) -> None:
    """An aborted transaction and the markers leave gaps in the offsets."""
    stream = streams(partitions=2)
    for part in range(6):
        messages = [order(SEED, number, partitions=2) for number in range(part * 5, part * 5 + 5)]
        produce_in_transaction(
            stream.bootstrap_servers, stream.input_topic, messages, commit=part != 2
        )
    connection = KafkaConnection.of(load_manifest(stream.manifest))
    offsets = connection.cluster().offsets(stream.input_topic)

    read = read_ranges(spark, connection, [offsets], tasks=7).withColumn("raw_position", in_task())
    rows = (
        with_positions(
            read.selectExpr(
                "partition",
                "offset AS raw_offset",
                "raw_position",
                "raw_position AS first_position",
            ),
            "partition",
        )
        .orderBy("partition", "raw_offset")
        .collect()
    )

    assert read.rdd.getNumPartitions() >= 7
    assert len(rows) == 25
    for partition in (0, 1):
        found = [row["raw_position"] for row in rows if row["partition"] == partition]
        assert found == list(range(len(found)))
    assert [row["raw_position"] for row in rows] == [row["first_position"] for row in rows]


def test_tasks_follow_the_number_of_offsets(spark: SparkSession, streams: CreateStream) -> None:
    stream = streams(partitions=1)
    offsets = (
        KafkaConnection.of(load_manifest(stream.manifest)).cluster().offsets(stream.output_topic)
    )

    def tasks(end: int) -> int:
        offsets.ends[0] = end
        return read_tasks([offsets], cores=2)

    assert [tasks(end) for end in (0, 10, 50_000, 400_000, 8_000_000)] == [1, 1, 1, 8, 8]
    assert tasks(100_000_000) == 100
    with shuffling(spark, 100_000_000):
        assert spark.conf.get("spark.sql.shuffle.partitions") == "250"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
