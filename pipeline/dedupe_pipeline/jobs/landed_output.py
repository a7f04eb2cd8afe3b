"""Read an output topic from the table in which it has landed, for `audit`."""

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.open_table import open_table
from dedupe_pipeline.jobs.land.table_job import check_belongs
from dedupe_pipeline.source import COLUMNS, read_range
from dedupe_pipeline.table_target import TableTarget


def read_landed(
    spark: SparkSession, connection: KafkaConnection, target: TableTarget, offsets: TopicOffsets
) -> DataFrame:
    """Return the same as `read_range`, from a table.

    What has not landed yet is read from the topic. A row of the table that is also read from the topic is there twice,
    as it should not be.

    Raises:
        LandingRefused: the table does not have this topic.
    """
    table = open_table(spark, target)
    landed = table.landed()
    if landed is None:
        raise LandingRefused(f"{target.name}: nothing has landed in this table")
    check_belongs(target.name, landed, offsets)
    rows = spark.table(table.name).select(*COLUMNS)
    at, number = F.col("offset"), F.col("partition")
    in_range = (at >= _by_partition(offsets.lows, number)) & (
        at < _by_partition(offsets.ends, number)
    )
    reached = {n: min(landed.offsets.get(n, 0), end) for n, end in offsets.ends.items()}
    rest = TopicOffsets(
        topic=offsets.topic,
        id=offsets.id,
        lows={n: max(offsets.lows[n], at) for n, at in reached.items()},
        ends=offsets.ends,
    )
    found = rows.where(in_range)
    return (
        found if rest.lows == rest.ends else found.unionByName(read_range(spark, connection, rest))
    )


def _by_partition(offsets: Mapping[int, int], number: Column) -> Column:
    """Return the offset of a row's partition, null for others."""
    pairs = chain.from_iterable(offsets.items())
    return F.try_element_at(F.create_map(*(F.lit(each) for each in pairs)), number)
