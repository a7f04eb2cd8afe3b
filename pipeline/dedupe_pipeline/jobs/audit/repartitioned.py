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
from dedupe_pipeline.jobs.audit.corrections import (
    has_old,
    old_repeats_of_origins,
    reordered_of_origins,
)
from dedupe_pipeline.jobs.audit.excuses import NO_FACTS, Facts
from dedupe_pipeline.jobs.audit.verdicts import mark_late, unlike_all_passed


def history_of(
    raw: DataFrame, clean: DataFrame, late: DataFrame | None = None, facts: Facts = NO_FACTS
) -> DataFrame:
    """Return the records of all topics in one table, with `is_raw` and `is_late`.

    All have the columns of `with_identity`. Those of `raw` also have `origin`, the topic and partition as a text;
    `in_order`, equal for records whose order is kept; `position`, as of `positions`; and `before`, the offset from
    which records of the origin may not have been processed yet.
    """
    sent = mark_late(raw, late) if late is not None else raw.withColumn("is_late", F.lit(False))
    is_pending = ~F.col("is_late") & (F.col("offset") >= F.col("before"))
    sent = sent.withColumns(
        {
            "is_raw": F.lit(True),
            "may_be_before": F.col("offset") < facts.accounted(),
            "pending": is_pending,
            "partition": F.lit(None).cast("int"),
        }
    ).drop("before")
    no = F.lit(False)
    may_be_before = F.col("offset") < facts.begin()
    passed = clean.withColumns(
        {"is_raw": no, "is_late": no, "pending": no, "may_be_before": may_be_before}
    )
    return sent.unionByName(passed, allowMissingColumns=True)


def judge(history: DataFrame, *, removes: bool = True, facts: Facts = NO_FACTS) -> DataFrame:
    """Return one row for each copy of a message, with its verdict.

    `removes` is false for a stream that only observes: then every copy is expected.
    """
    pairs = _pair(_number(history)).withColumn("is_other", unlike_all_passed())
    pairs = pairs.drop("raw_body", "clean_body")
    judged = _add_verdicts(pairs, removes=removes, facts=facts)
    return judged.drop("passed", "number", "was_sent", "is_known", "times")


def corrections_of(
    judged: DataFrame, *, by: RepartitionBy, removes: bool = True, facts: Facts = NO_FACTS
) -> DataFrame:
    """Return the verdicts that `corrections.corrected` replaces."""
    found = old_repeats_of_origins(judged, facts)
    if not has_old(judged):
        found = found.limit(0)
    # Of an id only one copy passes, so there is no order to compare.
    if not removes or by is RepartitionBy.KEY:
        found = found.unionByName(reordered_of_origins(judged))
    return found


def _number(history: DataFrame) -> DataFrame:
    """Give numbers to copies of equal content, and to those without a counterpart.

    Copies that may not have been processed come last, so that one that is missing among equal ones is one of them.
    """
    in_turn = ("pending", "time_ms", "origin", "partition", "offset")
    of_content = Window.partitionBy("ident", "digest")
    of_side = Window.partitionBy("ident", "digest", "is_raw").orderBy(*in_turn)
    of_rest = Window.partitionBy("ident", "is_raw", "is_paired", "is_before").orderBy(*in_turn)
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
            # Spark aggregates numbers by hash, and sorts for bytes.
            "content": F.xxhash64("digest"),
        }
    )
    paired = numbered.withColumns(
        {
            "is_paired": F.col("number") <= F.col("pairs"),
            "is_before": (F.col("pairs") == 0) & F.col("may_be_before"),
        }
    )
    rest = F.row_number().over(of_rest)
    # Even for one side and odd for the other, so that they make no pair.
    alone = -2 * rest - F.col("is_raw").cast("int")
    number = F.when(F.col("is_paired"), F.col("number")).when(F.col("is_before"), alone)
    return paired.withColumn("number", number.otherwise(rest))


def _pair(copies: DataFrame) -> DataFrame:
    """Return one row for each pair of copies, and for each copy without a counterpart."""

    def in_raw(column: Column | str) -> Column:
        value = F.col(column) if isinstance(column, str) else column
        return F.max(F.when(F.col("is_raw"), value))

    def in_clean(column: str) -> Column:
        return F.max(F.when(~F.col("is_raw"), F.col(column)))

    paired = F.when(F.col("is_paired"), F.col("digest")).alias("paired")
    pairs = copies.groupBy("ident", "has_id", "is_paired", paired, "number").agg(
        *(in_raw(name).alias(name) for name in ("origin", "in_order", "is_certain")),
        *(in_raw(name).alias(name) for name in ("copy", "content")),
        F.max("is_before").alias("is_before"),
        *(in_raw(name).alias(f"raw_{name}") for name in ("offset", "time_ms", "position")),
        in_raw("first_position").alias("first_position"),
        in_raw("first.time_ms").alias("first_time_ms"),
        F.coalesce(in_raw(F.col("place") != F.col("first")), F.lit(False)).alias("is_later"),
        F.max("is_late").alias("is_late"),
        F.max("pending").alias("pending"),
        in_clean("partition").alias("partition"),
        in_clean("offset").alias("clean_offset"),
        in_clean("time_ms").alias("clean_time_ms"),
        in_raw("body").alias("raw_body"),
        in_clean("body").alias("clean_body"),
    )
    return pairs.drop("paired")


def _add_distances(pairs: DataFrame) -> DataFrame:
    """Add `since_offsets` and `passes_before`, and `was_sent`.

    They are about the records before it with the id in the output.
    """
    earlier = (
        Window.partitionBy("ident", "partition")
        .orderBy("clean_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return pairs.withColumns(
        {
            "since_offsets": F.col("clean_offset") - F.last("clean_offset").over(earlier),
            "was_sent": F.col("is_paired"),
            "passes_before": F.count("clean_offset").over(earlier),
        }
    )


def _add_verdicts(pairs: DataFrame, *, removes: bool, facts: Facts) -> DataFrame:
    pairs = _add_distances(facts.with_told_ids(pairs))
    in_raw, in_clean = F.col("raw_offset").isNotNull(), F.col("clean_offset").isNotNull()
    is_expected_once = F.col("has_id") & F.lit(removes)
    # The copy that is the message: rather one that is as it was sent, and rather an altered one than a foreign one.
    is_before = F.col("is_before")
    of_id = Window.partitionBy("ident")
    known = {
        side: F.coalesce(F.max(is_before & present).over(of_id), F.lit(False))
        for side, present in (("raw", in_raw), ("clean", in_clean))
    }
    place = F.struct(
        (~in_raw).alias("is_foreign"),
        (~F.col("is_paired")).alias("is_altered"),
        "partition",
        F.col("clean_offset").alias("offset"),
    )
    passed = F.min(F.when(in_clean, place)).over(of_id)
    is_message = (F.col("partition") == F.col("passed.partition")) & (
        F.col("clean_offset") == F.col("passed.offset")
    )
    is_extra = in_clean & is_expected_once & ~is_before & (~is_message | F.col("known_in_clean"))
    is_elsewhere = is_extra & (F.col("partition") != F.col("passed.partition"))
    is_later = F.col("is_later") | (in_raw & F.col("known_in_clean"))
    may_be_old = is_extra & ~is_elsewhere & facts.may_be_old()
    verdict = (
        F.when(is_before, F.when(in_raw, "before_output").otherwise("before_input"))
        .when(is_elsewhere, "duplicated")
        .when(is_extra, facts.verdict_on_repeat())
        .when(in_raw & in_clean, F.when(F.col("is_paired"), "kept").otherwise("altered"))
        .when(in_clean, F.when(is_message, "foreign").otherwise("duplicated"))
        .when(F.col("is_late"), "late")
        .when(F.col("pending"), "pending")
        .when(
            is_expected_once
            & (F.col("passed").isNotNull() | (F.col("number") > 1) | F.col("known_in_raw")),
            "removed",
        )
        .when(F.col("has_id") & F.col("is_known"), "known_before")
        .otherwise("lost")
    )
    # What did not come out is counted where its id did; without an id nobody knows where it belongs.
    where = F.when(F.col("has_id"), F.col("passed.partition"))
    return (
        pairs.withColumns(
            {"passed": passed, **{f"known_in_{side}": found for side, found in known.items()}}
        )
        .withColumns(
            {
                "verdict": verdict,
                "is_repeat": F.col("has_id") & ~is_before & is_later,
                "repeats_another_partition": F.lit(False),
                "other_partition": F.when(is_elsewhere, F.col("passed.partition")),
                "other_offset": F.when(is_elsewhere, F.col("passed.offset")),
                "may_be_old": may_be_old,
            }
        )
        .withColumn("partition", F.coalesce("partition", where))
        .drop("is_later")
    )
