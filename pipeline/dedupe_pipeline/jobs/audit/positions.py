"""Number the records of a partition without a sort.

The job `audit` calls it. Spark's Kafka source reads each range of offsets in one task, in order. So a record is
numbered within its task when it is read, and the records of earlier ranges are added when all are counted.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

_TASK_BITS = 33  # of monotonically_increasing_id


def in_task() -> Column:
    """Return the number of a record that is just read: its task, and its place there."""
    return F.monotonically_increasing_id()


def with_positions(judged: DataFrame, place: str) -> DataFrame:
    """Replace the numbers in tasks by positions in the partition, counted from 0.

    `place` is the column of the raw partition.
    """
    counted = (
        judged.where(F.col("raw_position").isNotNull())
        .groupBy(F.col(place).alias("place"), task_of("raw_position").alias("task"))
        .agg(F.count("raw_offset").alias("records"), F.min("raw_offset").alias("first"))
    )
    before = records_before(counted.collect())
    if not before:
        return judged
    return judged.withColumns(
        {
            name: F.element_at(F.lit(before), task_of(name) + 1) + place_in_task(name)
            for name in ("raw_position", "first_position")
        }
    )


def records_before(
    counted: Iterable[Row], of_earlier: Mapping[Any, int] | None = None
) -> list[int]:
    """Return for each task how many records of its place are before those of the task.

    `counted` has the records and the first offset of each task; `of_earlier` what was read before, by place.
    """
    rows = sorted(counted, key=lambda row: (row["place"], row["first"]))
    found = [0] * (1 + max((row["task"] for row in rows), default=-1))
    for place, tasks in groupby(rows, key=lambda row: row["place"]):
        total = (of_earlier or {}).get(place, 0)
        for row in tasks:
            found[row["task"]] = total
            total += row["records"]
    return found


def task_of(position: str) -> Column:
    """Return the number of the task that has read a record."""
    return F.shiftright(position, _TASK_BITS).cast("int")


def place_in_task(position: str) -> Column:
    """Return the number of records that the task has read before."""
    return F.col(position).bitwiseAND(F.lit((1 << _TASK_BITS) - 1))
