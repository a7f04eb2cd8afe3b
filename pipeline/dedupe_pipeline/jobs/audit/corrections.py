"""Correct the verdicts that depend on the order and the time of other messages.

The job `audit` calls it with the table of all verdicts, which is cached. What is compared here is a slim part of that
table, and few verdicts change: those of records out of order, and of repeats that passed for their age.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.storagelevel import StorageLevel

from dedupe_pipeline.jobs.audit.excuses import NO_FACTS, Facts
from dedupe_pipeline.jobs.audit.in_order import with_stream_time, with_value_before

_PLACE = ["partition", "clean_offset"]
_MOST_TO_SEND = 2_000_000  # rows that each executor gets as a whole


@contextmanager
def persisted(table: DataFrame) -> Iterator[DataFrame]:
    """Cache a table for several queries, on disk if the memory is too small."""
    table.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield table
    finally:
        table.unpersist()


@contextmanager
def corrected(judged: DataFrame, corrections: DataFrame) -> Iterator[DataFrame]:
    """Return the table with the corrected verdicts.

    `corrections` have the `partition` and `clean_offset` of a record, and its `correct` verdict.
    """
    with persisted(corrections):
        many = corrections.count()
        if not many:
            yield judged
            return
        few = F.broadcast(corrections) if many <= _MOST_TO_SEND else corrections
        verdict = F.coalesce("correct", "verdict")
        yield judged.join(few, _PLACE, "left").withColumn("verdict", verdict).drop("correct")


def reordered(
    judged: DataFrame, facts: Facts = NO_FACTS, before: Mapping[int, int] | None = None
) -> DataFrame:
    """Return corrections where the output topic goes back in raw order.

    Only unaltered records are compared with each other: an altered record may be another copy from another place, and a
    duplicated record has its own verdict. A repeat whose equal first copy is of earlier input has no order. `before` is
    for each partition the raw offset of the last such record that was compared earlier.
    """
    in_order = kept(judged).where(F.col("offset") >= facts.begin("place"))
    goes_back = F.col("before") > F.col("value")
    return (
        with_value_before(in_order, before)
        .where(goes_back)
        .select(
            F.col("place").alias("partition"),
            F.col("offset").alias("clean_offset"),
            F.lit("reordered").alias("correct"),
        )
    )


def kept(judged: DataFrame) -> DataFrame:
    """Return `place`, `offset` and raw offset (`value`) of unaltered first copies."""
    return judged.where(F.col("verdict") == "kept").select(
        F.col("partition").alias("place"),
        F.col("clean_offset").alias("offset"),
        F.col("raw_offset").alias("value"),
    )


def has_old(judged: DataFrame) -> bool:
    """Return whether the age of a repeat has to be known.

    All are counted, and not the first one searched for, so that all cores fill the cache.
    """
    return judged.where("may_be_old").count() > 0


def old_repeats(
    judged: DataFrame,
    facts: Facts,
    times: DataFrame | None = None,
    before: Mapping[int, int] | None = None,
) -> DataFrame:
    """Return corrections of repeats that passed after the window of their id.

    `times` has `place`, `offset` and `time_ms` of all records of the output, by default those of `judged`; `before` is
    the time of the stream before them.
    """
    if times is None:
        times = judged.where(F.col("clean_offset").isNotNull()).select(
            F.col("partition").alias("place"),
            F.col("clean_offset").alias("offset"),
            F.col("clean_time_ms").alias("time_ms"),
        )
    earlier = F.col("clean_offset") - F.col("since_offsets")
    asked = judged.where("may_be_old").select(*_PLACE, earlier.alias("earlier_offset"))
    both = F.explode(F.array("clean_offset", "earlier_offset"))
    wanted = asked.select(F.col("partition").alias("place"), both.alias("offset")).distinct()
    at = (
        with_stream_time(times, facts.now_ms, before)
        .join(wanted, ["place", "offset"], "left_semi")
        .select(F.col("place").alias("partition"), "offset", "stream_ms")
    )
    now = at.withColumnsRenamed({"offset": "clean_offset", "stream_ms": "now_ms"})
    then = at.withColumnsRenamed({"offset": "earlier_offset", "stream_ms": "then_ms"})
    since = asked.join(now, _PLACE).join(then, ["partition", "earlier_offset"])
    since = since.withColumn("since_ms", F.col("now_ms") - F.col("then_ms"))
    return _old(since, facts)


def old_repeats_of_origins(judged: DataFrame, facts: Facts) -> DataFrame:
    """Return the same with a repartition, by the time of the stream in each origin.

    Of equal copies in the input it is not known which one passed, so the latest counts.
    """
    in_raw = F.col("raw_offset").isNotNull()
    asked = judged.where("may_be_old").select("ident").distinct()
    some = judged.join(asked, "ident", "left_semi").select(
        *("ident", "content", "may_be_old", "origin", "raw_offset", *_PLACE, "clean_time_ms")
    )
    sent = judged.where(in_raw).select(
        F.col("origin").alias("place"),
        F.col("raw_offset").alias("offset"),
        F.col("raw_time_ms").alias("time_ms"),
    )
    wanted = some.where(in_raw).select(
        F.col("origin").alias("place"), F.col("raw_offset").alias("offset")
    )
    at = with_stream_time(sent, facts.now_ms).join(wanted, ["place", "offset"], "left_semi")
    at = at.select(F.col("place").alias("origin"), F.col("offset").alias("raw_offset"), "stream_ms")
    of_content = Window.partitionBy("ident", "content")
    earlier = (
        Window.partitionBy("ident", "partition")
        .orderBy("clean_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    content_ms = F.when(in_raw, F.max("stream_ms").over(of_content))
    passed_ms = F.coalesce("stream_ms", "clean_time_ms")
    since = some.join(at, ["origin", "raw_offset"], "left").withColumn(
        "latest_ms", F.coalesce(content_ms, "clean_time_ms")
    )
    since = since.where(F.col("clean_offset").isNotNull()).withColumn(
        "since_ms", F.col("latest_ms") - F.last(passed_ms).over(earlier)
    )
    return _old(since.where("may_be_old"), facts)


def reordered_of_origins(judged: DataFrame) -> DataFrame:
    """Return corrections where the output goes back in an origin's order.

    Only what keeps its order is compared: records of one origin with the same `in_order`.
    """
    is_kept = (F.col("verdict") == "kept") & F.col("is_certain") & F.col("in_order").isNotNull()
    in_clean = Window.partitionBy("partition", "origin", "in_order").orderBy("clean_offset")
    before = F.lag("raw_offset").over(in_clean)
    slim = judged.where(is_kept).select(*_PLACE, "origin", "in_order", "raw_offset")
    goes_back = slim.withColumn("before", before).where(F.col("before") > F.col("raw_offset"))
    return goes_back.select(*_PLACE, F.lit("reordered").alias("correct"))


def _old(since: DataFrame, facts: Facts) -> DataFrame:
    return since.where(facts.is_old()).select(*_PLACE, F.lit("beyond_window").alias("correct"))
