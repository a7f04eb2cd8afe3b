"""Compare records with those before them, exactly and in parallel.

The job `audit` calls it. A window over a whole partition would be sorted by one task. So a partition is cut into chunks
of offsets: windows run within a chunk, and what crosses the cut between two chunks comes from a small table with a row
for each chunk. Columns: `place`, such as a partition; `offset`, by which records are ordered.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.sql.window import WindowSpec

CHUNK = 1 << 17
"""Offsets in a chunk: a task sorts them in memory, and a billion records make 8,000 chunks."""


def with_value_before(
    records: DataFrame, before: Mapping[Any, int] | None = None, *, chunk: int = CHUNK
) -> DataFrame:
    """Add `before`: the `value` of the record before it in its place.

    Of the first record it is that of `before` for its place, or null.
    """
    chunked = _cut(records, chunk)
    last = chunked.groupBy("place", "chunk").agg(F.max_by("value", "offset").alias("last"))
    crossing = last.select("place", "chunk", F.lag("last").over(_chunks()).alias("crossing"))
    found = F.coalesce(F.lag("value").over(_in_chunk()), F.col("crossing"), _of_place(before))
    return (
        chunked.join(F.broadcast(crossing), ["place", "chunk"])
        .withColumn("before", found)
        .drop("chunk", "crossing")
    )


def with_stream_time(
    records: DataFrame,
    now_ms: int,
    before: Mapping[Any, int] | None = None,
    *,
    chunk: int = CHUNK,
) -> DataFrame:
    """Add `stream_ms`: the newest timestamp so far in the place, from `time_ms`.

    Timestamps are the producers': a replayed record has an old one, and a wrong clock makes any. So each counts as the
    median of itself and its neighbours, and none that is later than `now_ms`. `before` is the time before the first
    record of a place.
    """
    typical = _with_typical_time(_cut(records, chunk), now_ms)
    newest = typical.groupBy("place", "chunk").agg(F.max("typical_ms").alias("newest_ms"))
    earlier = F.max("newest_ms").over(_chunks().rowsBetween(Window.unboundedPreceding, -1))
    crossing = newest.select("place", "chunk", earlier.alias("earlier_ms"))
    within = F.max("typical_ms").over(_in_chunk())
    return (
        typical.join(F.broadcast(crossing), ["place", "chunk"])
        # The greatest of those that are not null.
        .withColumn("stream_ms", F.greatest(within, F.col("earlier_ms"), _of_place(before)))
        .drop("chunk", "typical_ms", "earlier_ms")
    )


def _with_typical_time(chunked: DataFrame, now_ms: int) -> DataFrame:
    ends = chunked.groupBy("place", "chunk").agg(
        F.min_by("time_ms", "offset").alias("first"), F.max_by("time_ms", "offset").alias("last")
    )
    crossing = ends.select(
        "place",
        "chunk",
        F.lag("last").over(_chunks()).alias("from_before"),
        F.lead("first").over(_chunks()).alias("from_after"),
    )
    own = F.col("time_ms")
    before = F.coalesce(F.lag("time_ms").over(_in_chunk()), F.col("from_before"), own)
    after = F.coalesce(F.lead("time_ms").over(_in_chunk()), F.col("from_after"), own)
    median = F.greatest(F.least(before, own), F.least(F.greatest(before, own), after))
    return (
        chunked.join(F.broadcast(crossing), ["place", "chunk"])
        .withColumn("typical_ms", F.when(median <= now_ms, median))
        .drop("from_before", "from_after")
    )


def _in_chunk() -> WindowSpec:
    return Window.partitionBy("place", "chunk").orderBy("offset")


def _chunks() -> WindowSpec:
    return Window.partitionBy("place").orderBy("chunk")


def _cut(records: DataFrame, chunk: int) -> DataFrame:
    return records.withColumn("chunk", F.floor(F.col("offset") / chunk))


def _of_place(found: Mapping[Any, int] | None) -> Column:
    if not found:
        return F.lit(None).cast("bigint")
    of = F.create_map(*(F.lit(each) for each in chain.from_iterable(found.items())))
    return F.try_element_at(of, F.col("place"))
