"""Compute the verdict on each record, by functions from DataFrame to DataFrame.

The job `audit` calls them; they read no topic and write nothing. Both topics form one history. Within a partition the
copies of a message are numbered in each topic, and copy n of the input topic is compared with copy n of the output
topic. A message with an id is expected once, as its first copy; a message without an id as often as in the input topic.
"""

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

DEFECTS = ("lost", "duplicated", "altered", "reordered", "foreign")


def history_of(raw: DataFrame, clean: DataFrame) -> DataFrame:
    """Return both topics' records (see `with_identity`) in one table, with `is_raw`."""
    return raw.withColumn("is_raw", F.lit(True)).unionByName(
        clean.withColumn("is_raw", F.lit(False))
    )


def number_copies(history: DataFrame) -> DataFrame:
    """Add `position`, `copy`, `first_position` and `first_time_ms`.

    `position` is that in the partition, counted in records; `copy` is 1 for the first copy, whose position and time are
    in `first_position` and `first_time_ms`.
    """
    in_partition = Window.partitionBy("is_raw", "partition").orderBy("offset")
    # The ident comes first: a sort compares the first 8 bytes of the first column without access to the row.
    of_message = Window.partitionBy("ident", "partition", "is_raw").orderBy("offset")
    return history.withColumn("position", F.row_number().over(in_partition)).withColumns(
        {
            "copy": F.row_number().over(of_message),
            "first_position": F.first("position").over(of_message),
            "first_time_ms": F.first("time_ms").over(of_message),
        }
    )


def pair_copies(copies: DataFrame) -> DataFrame:
    """Return one row for each copy n of a message, with its raw and clean offset."""

    def in_raw(column: str) -> Column:
        return F.max(F.when(F.col("is_raw"), F.col(column)))

    def in_clean(column: str) -> Column:
        return F.max(F.when(~F.col("is_raw"), F.col(column)))

    return copies.groupBy("ident", "partition", "has_id", "copy").agg(
        in_raw("offset").alias("raw_offset"),
        in_raw("time_ms").alias("raw_time_ms"),
        in_raw("position").alias("raw_position"),
        in_raw("first_position").alias("first_position"),
        in_raw("first_time_ms").alias("first_time_ms"),
        in_clean("offset").alias("clean_offset"),
        in_clean("time_ms").alias("clean_time_ms"),
        (in_raw("digest") == in_clean("digest")).alias("unaltered"),
    )


def add_verdicts(
    pairs: DataFrame, judged_before: Mapping[int, int], *, removes: bool = True
) -> DataFrame:
    """Add `pending` and `verdict`: kept, removed, pending, or a defect but reordered.

    `judged_before` is for each partition the raw offset from which records may not have been processed yet. `removes`
    is false for a stream that only observes: then every copy is expected.
    """
    in_raw, in_clean = F.col("raw_offset").isNotNull(), F.col("clean_offset").isNotNull()
    bounds = F.create_map(*(F.lit(n) for n in chain.from_iterable(judged_before.items())))
    bound = F.coalesce(F.try_element_at(bounds, F.col("partition")), F.lit(0))
    is_repeat = F.col("has_id") & (F.col("copy") > 1) & F.lit(removes)
    # A copy that only the output topic has is foreign if it is the first copy there.
    verdict = (
        F.when(in_raw & in_clean & is_repeat, "duplicated")
        .when(in_raw & in_clean, F.when(F.col("unaltered"), "kept").otherwise("altered"))
        .when(in_clean, F.when(F.col("copy") == 1, "foreign").otherwise("duplicated"))
        .when(F.col("pending"), "pending")
        .when(is_repeat, "removed")
        .otherwise("lost")
    )
    pending = in_raw & (F.col("raw_offset") >= bound)
    judged = pairs.withColumn("pending", pending).withColumn("verdict", verdict)
    return judged.drop("ident", "unaltered")  # no longer needed, and most of the bytes


def find_reordered(judged: DataFrame) -> DataFrame:
    """Turn kept into reordered where the output topic goes back in raw order.

    Only unaltered records are compared with each other: an altered record may be another copy from another place, and a
    duplicated record has its own verdict.
    """
    in_clean = Window.partitionBy("partition", "verdict").orderBy("clean_offset")
    goes_back = F.lag("raw_offset").over(in_clean) > F.col("raw_offset")
    is_reordered = (F.col("verdict") == "kept") & F.coalesce(goes_back, F.lit(False))
    return judged.withColumn(
        "verdict", F.when(is_reordered, "reordered").otherwise(F.col("verdict"))
    )


def summarise(judged: DataFrame) -> DataFrame:
    """Return the counts of records, one row per partition."""
    is_judged_raw = F.col("raw_offset").isNotNull() & ~F.col("pending")
    has_id, is_first = F.col("has_id"), F.col("copy") == 1
    verdicts = [F.count_if(F.col("verdict") == name).alias(name) for name in ("removed", *DEFECTS)]
    return (
        judged.groupBy("partition")
        .agg(
            F.count("raw_offset").alias("raw_records"),
            F.count("clean_offset").alias("clean_records"),
            F.count_if("pending").alias("pending"),
            F.count_if(is_judged_raw & has_id & is_first).alias("unique_ids"),
            F.count_if(is_judged_raw & has_id & ~is_first).alias("repeats"),
            F.count_if(is_judged_raw & ~has_id).alias("without_id"),
            *verdicts,
        )
        .orderBy("partition")
    )


def examples(judged: DataFrame, limit: int) -> DataFrame:
    """Return the first `limit` defects: verdict, partition, raw and clean offset."""
    return (
        judged.where(F.col("verdict").isin(*DEFECTS))
        .orderBy("partition", F.coalesce("raw_offset", "clean_offset"))
        .limit(limit)
        .select("verdict", "partition", "raw_offset", "clean_offset")
    )
