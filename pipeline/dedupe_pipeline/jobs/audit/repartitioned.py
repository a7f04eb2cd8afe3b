"""Compute the verdict on each record of a stream with spec.repartition.

The job `audit` calls it; `verdicts` does so without a repartition. The copies of a message come from any partition of
any input topic, their origin, and meet in one output partition. No order between origins is known, so any copy may be
the first. So a record of the output is compared with a copy of equal content wherever that was sent, and only without
one with another copy of its id. A message with an id is expected once in all of the output; a message without an id as
often as in all of the input. The result has the columns of `verdicts.find_reordered`, and `origin`.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_pipeline.jobs.audit.verdicts import mark_late


def history_of(raw: DataFrame, clean: DataFrame, late: DataFrame | None = None) -> DataFrame:
    """Return the records of all topics in one table, with `is_raw` and `is_late`.

    All have the columns of `with_identity`. Those of `raw` also have `origin`, the topic and partition as a text;
    `in_order`, equal for records whose order is kept; and `before`, the offset from which records of the origin may not
    have been processed yet.
    """
    sent = mark_late(raw, late) if late is not None else raw.withColumn("is_late", F.lit(False))
    of_origin = Window.partitionBy("origin").orderBy("offset")
    is_pending = ~F.col("is_late") & (F.col("offset") >= F.col("before"))
    sent = sent.withColumns(
        {
            "is_raw": F.lit(True),
            "position": F.row_number().over(of_origin),
            "pending": is_pending,
            "partition": F.lit(None).cast("int"),
        }
    ).drop("before")
    passed = clean.withColumns(
        {"is_raw": F.lit(False), "is_late": F.lit(False), "pending": F.lit(False)}
    )
    return sent.unionByName(passed, allowMissingColumns=True)


def judge(history: DataFrame, *, by: RepartitionBy, removes: bool = True) -> DataFrame:
    """Return one row for each copy of a message, with its verdict.

    `removes` is false for a stream that only observes: then every copy is expected.
    """
    judged = _add_verdicts(_pair(_number(history)), removes=removes)
    # Of an id only one copy passes, so there is no order to compare.
    if not removes or by is RepartitionBy.KEY:
        judged = _find_reordered(judged)
    return judged.drop("ident", "passed", "in_order", "is_certain", "is_paired", "number")


def _number(history: DataFrame) -> DataFrame:
    """Give numbers to copies of equal content, and to those without a counterpart.

    Copies that may not have been processed come last, so that one that is missing among equal ones is one of them.
    """
    in_turn = ("pending", "time_ms", "origin", "partition", "offset")
    of_content = Window.partitionBy("ident", "digest")
    of_side = Window.partitionBy("ident", "digest", "is_raw").orderBy(*in_turn)
    of_rest = Window.partitionBy("ident", "is_raw", "is_paired").orderBy(*in_turn)
    of_origin = Window.partitionBy("ident", "is_raw", "origin").orderBy("offset")
    sides = (F.col("is_raw"), ~F.col("is_raw"))
    place = F.when(F.col("is_raw"), F.struct("pending", "time_ms", "origin", "offset"))
    numbered = history.repartition("ident").withColumns(
        {
            "number": F.row_number().over(of_side),
            "pairs": F.least(*(F.count_if(side).over(of_content) for side in sides)),
            # Of equal records from two origins it is not known which came out first.
            "is_certain": F.min("origin").over(of_content) == F.max("origin").over(of_content),
            "copy": F.row_number().over(of_origin),
            "first_position": F.first("position").over(of_origin),
            "first": F.min(place).over(Window.partitionBy("ident")),
            "place": place,
        }
    )
    paired = numbered.withColumn("is_paired", F.col("number") <= F.col("pairs"))
    rest = F.row_number().over(of_rest)
    return paired.withColumn("number", F.when(F.col("is_paired"), F.col("number")).otherwise(rest))


def _pair(copies: DataFrame) -> DataFrame:
    """Return one row for each pair of copies, and for each copy without a counterpart."""

    def in_raw(column: Column | str) -> Column:
        value = F.col(column) if isinstance(column, str) else column
        return F.max(F.when(F.col("is_raw"), value))

    def in_clean(column: str) -> Column:
        return F.max(F.when(~F.col("is_raw"), F.col(column)))

    content = F.when(F.col("is_paired"), F.col("digest")).alias("content")
    pairs = copies.groupBy("ident", "has_id", "is_paired", content, "number").agg(
        *(in_raw(name).alias(name) for name in ("origin", "in_order", "is_certain", "copy")),
        *(in_raw(name).alias(f"raw_{name}") for name in ("offset", "time_ms", "position")),
        in_raw("first_position").alias("first_position"),
        in_raw("first.time_ms").alias("first_time_ms"),
        F.coalesce(in_raw(F.col("place") != F.col("first")), F.lit(False)).alias("is_later"),
        F.max("is_late").alias("is_late"),
        F.max("pending").alias("pending"),
        in_clean("partition").alias("partition"),
        in_clean("offset").alias("clean_offset"),
        in_clean("time_ms").alias("clean_time_ms"),
    )
    return pairs.drop("content")


def _add_verdicts(pairs: DataFrame, *, removes: bool) -> DataFrame:
    in_raw, in_clean = F.col("raw_offset").isNotNull(), F.col("clean_offset").isNotNull()
    is_expected_once = F.col("has_id") & F.lit(removes)
    # The copy that is the message: rather one that is as it was sent, and rather an altered one than a foreign one.
    place = F.struct(
        (~in_raw).alias("is_foreign"),
        (~F.col("is_paired")).alias("is_altered"),
        "partition",
        F.col("clean_offset").alias("offset"),
    )
    passed = F.min(F.when(in_clean, place)).over(Window.partitionBy("ident"))
    is_message = (F.col("partition") == F.col("passed.partition")) & (
        F.col("clean_offset") == F.col("passed.offset")
    )
    is_extra = in_clean & is_expected_once & ~is_message
    is_elsewhere = is_extra & (F.col("partition") != F.col("passed.partition"))
    verdict = (
        F.when(is_extra, "duplicated")
        .when(in_raw & in_clean, F.when(F.col("is_paired"), "kept").otherwise("altered"))
        .when(in_clean, F.when(is_message, "foreign").otherwise("duplicated"))
        .when(F.col("is_late"), "late")
        .when(F.col("pending"), "pending")
        .when(is_expected_once & (F.col("passed").isNotNull() | (F.col("number") > 1)), "removed")
        .otherwise("lost")
    )
    # What did not come out is counted where its id did; without an id nobody knows where it belongs.
    where = F.when(F.col("has_id"), F.col("passed.partition"))
    return (
        pairs.withColumn("passed", passed)
        .withColumns(
            {
                "verdict": verdict,
                "is_repeat": F.col("has_id") & F.col("is_later"),
                "repeats_another_partition": F.lit(False),
                "other_partition": F.when(is_elsewhere, F.col("passed.partition")),
                "other_offset": F.when(is_elsewhere, F.col("passed.offset")),
            }
        )
        .withColumn("partition", F.coalesce("partition", where))
        .drop("is_later")
    )


def _find_reordered(judged: DataFrame) -> DataFrame:
    """Turn kept into reordered where the output goes back in an origin's order.

    Only what keeps its order is compared: records of one origin with the same `in_order`.
    """
    kept = F.when((F.col("verdict") == "kept") & F.col("is_certain"), F.col("in_order"))
    in_clean = Window.partitionBy("partition", "origin", kept).orderBy("clean_offset")
    goes_back = F.lag("raw_offset").over(in_clean) > F.col("raw_offset")
    is_reordered = kept.isNotNull() & F.coalesce(goes_back, F.lit(False))
    return judged.withColumn(
        "verdict", F.when(is_reordered, "reordered").otherwise(F.col("verdict"))
    )
