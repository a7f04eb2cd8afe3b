"""Compute the verdict on each record, by functions from DataFrame to DataFrame.

The job `audit` calls them; they read no topic and write nothing. Both topics form one history. Within a partition the
copies of a message are numbered in each topic, and copy n of the input topic is compared with copy n of the output
topic. A message with an id is expected once in all partitions together, in a partition to which it was sent; a message
without an id as often as in the input topic, in the same partition.
"""

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_pipeline.jobs.audit.corrections import has_old, old_repeats, reordered
from dedupe_pipeline.jobs.audit.excuses import EXCUSES, NO_FACTS, Facts, looked_up

DEFECTS = ("lost", "duplicated", "altered", "reordered", "foreign")
_KNOWN = ("known_in_raw", "known_in_clean")


def history_of(raw: DataFrame, clean: DataFrame, late: DataFrame | None = None) -> DataFrame:
    """Return both topics' records in one table, with `is_raw` and `is_late`.

    They are as of `with_identity`; raw ones have a `position` too, as of `positions`. `late` are the records of the
    late topic, if there is one.
    """
    sent = (
        mark_late(raw, late, "partition") if late is not None else raw.withColumn("is_late", _no())
    )
    no_position = F.lit(None).cast("bigint")
    passed = clean.withColumns({"is_raw": _no(), "is_late": _no(), "position": no_position})
    return sent.withColumn("is_raw", F.lit(True)).unionByName(passed)


def mark_late(raw: DataFrame, late: DataFrame, *place: str) -> DataFrame:
    """Add `is_late`: the worker has written the record to the late topic.

    Such a record is a separate message, not the first copy of its id: a copy with a later timestamp may pass. It is
    known by its content, and by the columns of `place`. Of equal records the last ones are late: once a record is late,
    an equal one stays late.
    """
    same = ["ident", "digest", *place]
    routed = late.groupBy(*same).agg(F.count(F.lit(1)).alias("routed"))
    last_first = Window.partitionBy(*same).orderBy(F.desc("offset"))
    is_late = F.row_number().over(last_first) <= F.coalesce("routed", F.lit(0))
    # No other ident begins so: they are hashes.
    where = [name for name in ("origin", "partition", "offset") if name in raw.columns]
    alone = F.concat_ws("/", F.lit("late"), *where).cast("binary")
    marked = raw.join(routed, same, "left").withColumn("is_late", is_late).drop("routed")
    return marked.withColumn("ident", F.when(F.col("is_late"), alone).otherwise(F.col("ident")))


def number_copies(history: DataFrame, facts: Facts = NO_FACTS) -> DataFrame:
    """Add `copy`, the first copy's place and time, and what excuses need.

    `copy` is 1 for the first copy in its partition, whose position and time are in `first_position` and
    `first_time_ms`. A record whose counterpart may be deleted and that has no equal one in the other topic `is_before`
    and has a negative copy; `known_in_raw` and `known_in_clean` tell that the partition has such a record of the
    message. `since_offsets` is the distance to the copy before it in the topic; a clean record `was_sent` if the input
    has as many equal records at least.
    """
    # The ident comes first: a sort compares the first 8 bytes of the first column without access to the row.
    of_message = Window.partitionBy("ident", "partition", "is_raw").orderBy("offset")
    of_content = Window.partitionBy("ident", "partition", "digest")
    in_place = Window.partitionBy("ident", "partition")
    # One shuffle by ident serves all that follows up to `add_verdicts`. Spark would choose one by all columns of the
    # window here, and further ones there.
    sides = {True: F.col("is_raw"), False: ~F.col("is_raw")}
    equal = {is_raw: F.count_if(side).over(of_content) for is_raw, side in sides.items()}
    compared = history.repartition("ident").withColumns(
        {
            "was_sent": equal[True] >= equal[False],
            "is_before": F.when(
                F.col("is_raw"), (equal[False] == 0) & (F.col("offset") < facts.accounted())
            ).otherwise((equal[True] == 0) & (F.col("offset") < facts.begin())),
        }
    )
    known = {
        is_raw: F.count_if(F.col("is_before") & side).over(in_place) > 0
        for is_raw, side in sides.items()
    }
    before = F.count_if("is_before").over(of_message)
    # Even for one topic and odd for the other, so that they make no pair.
    alone = -2 * before - F.col("is_raw").cast("int")
    number = F.row_number().over(of_message) - before
    return compared.withColumns(
        {"known_in_raw": known[True], "known_in_clean": known[False]}
    ).withColumns(
        {
            "copy": F.when(F.col("is_before"), alone).otherwise(number),
            "first_position": F.first("position").over(of_message),
            "first_time_ms": F.first("time_ms").over(of_message),
            "since_offsets": F.col("offset") - F.lag("offset").over(of_message),
            # Spark aggregates numbers by hash, and sorts for bytes.
            "content": F.xxhash64("digest"),
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
        in_raw("body").alias("raw_body"),
        in_clean("body").alias("clean_body"),
        (in_raw("content") == in_clean("content")).alias("unaltered"),
        *(in_clean(name).alias(name) for name in ("since_offsets", "was_sent")),
        *(F.max(name).alias(name) for name in ("is_late", "is_before", *_KNOWN)),
    )


def mark_pending(pairs: DataFrame, judged_before: Mapping[int, int]) -> DataFrame:
    """Add `pending`: the raw copy may not have been processed yet.

    `judged_before` is for each partition the raw offset from which that is so.
    """
    bounds = F.create_map(*(F.lit(n) for n in chain.from_iterable(judged_before.items())))
    bound = F.coalesce(F.try_element_at(bounds, F.col("partition")), F.lit(0))
    is_pending = _in_raw() & ~F.col("is_late") & (F.col("raw_offset") >= bound)
    return pairs.withColumn("pending", is_pending)


def compare_partitions(
    pairs: DataFrame, known_before: Mapping[int, int] | None = None
) -> DataFrame:
    """Add `first` and `passed`: the partitions that have an id first in each topic.

    Both are null without an id and in a topic that lacks it. `first` is a struct of `time_ms` and `partition`. `passed`
    is one of `is_foreign`, `partition` and `offset`: the copy that is the message; foreign if only the output topic
    has it in its partition. Offsets of partitions have no common order, so the earliest timestamp decides. A record
    that was judged earlier is the message, rather than a new one: `known_before` are the offsets of the output before
    which that is so. Also adds `is_other`, see `unlike_all_passed`.
    """
    of_id = Window.partitionBy("ident")
    raw_copy = F.struct("pending", F.col("first_time_ms").alias("time_ms"), "partition")
    clean_copy = F.struct(
        (~_in_raw()).alias("is_foreign"),
        (F.col("clean_offset") >= looked_up(known_before or {})).alias("is_new"),
        "pending",
        F.coalesce("raw_time_ms", "clean_time_ms").alias("time_ms"),
        "partition",
        F.col("clean_offset").alias("offset"),
    )
    is_passed = F.col("has_id") & _in_clean() & (F.col("copy") == 1) & ~F.col("known_in_clean")
    return pairs.withColumns(
        {
            "first": F.min(F.when(F.col("has_id") & _in_raw(), raw_copy)).over(of_id),
            "passed": F.min(F.when(is_passed, clean_copy)).over(of_id),
            "is_other": unlike_all_passed(),
        }
    )


def unlike_all_passed() -> Column:
    """Return whether a raw record's key or value did not pass with its id.

    An id may pass again after its window, with another content: up to two contents are compared.
    """
    of_id, passed = Window.partitionBy("ident"), F.col("clean_body")
    least, most = F.min(passed).over(of_id), F.max(passed).over(of_id)
    differs = (F.col("raw_body") != least) & (F.col("raw_body") != most)
    return F.coalesce(F.col("has_id") & differs, _no())


def add_verdicts(pairs: DataFrame, *, removes: bool = True, facts: Facts = NO_FACTS) -> DataFrame:
    """Add `verdict`: kept, removed, late, pending, an excuse or a defect.

    For raw copies also `is_repeat`, and `repeats_another_partition` if only another partition has an earlier copy. For
    clean copies `other_partition` and `other_offset`, if they are duplicated because that place has their id; and
    `may_be_old`, if the verdict depends on the time since the last pass. `removes` is false for a stream that only
    observes: then every copy is expected.
    """
    pairs = facts.with_told_ids(pairs)
    is_expected_once = F.col("has_id") & F.lit(removes)
    is_copy = (F.col("copy") > 1) | (F.col("known_in_clean") & ~F.col("is_before"))
    is_again = _in_raw() & _in_clean() & is_expected_once & is_copy
    passes = F.col("copy") - F.lit(1) + F.col("known_in_clean").cast("int")
    pairs = pairs.withColumn("passes_before", passes)
    sent_elsewhere = _in_raw() & F.coalesce(F.col("partition") != F.col("first.partition"), _no())
    is_elsewhere = is_expected_once & ~is_copy & ~F.col("is_before")
    is_elsewhere &= F.coalesce(F.col("partition") != F.col("passed.partition"), _no())
    is_extra = _in_clean() & is_elsewhere
    # A copy that only the output topic has is foreign if it is the first copy there.
    verdict = (
        F.when(F.col("is_before"), F.when(_in_raw(), "before_output").otherwise("before_input"))
        .when(is_extra, "duplicated")
        .when(is_again, facts.verdict_on_repeat())
        .when(_in_raw() & _in_clean(), F.when(F.col("unaltered"), "kept").otherwise("altered"))
        .when(_in_clean(), F.when(is_copy, "duplicated").otherwise("foreign"))
        .when(F.col("is_late"), "late")
        .when(F.col("pending"), "pending")
        .when(is_expected_once & (is_copy | F.col("known_in_raw")), "removed")
        .when(is_elsewhere & ~F.col("passed.is_foreign"), "removed")
        .when(F.col("has_id") & F.col("is_known"), "known_before")
        .otherwise("lost")
    )
    judged = pairs.withColumns(
        {
            "verdict": verdict,
            "is_repeat": F.col("has_id")
            & _in_raw()
            & ~F.col("is_before")
            & (is_copy | sent_elsewhere),
            "repeats_another_partition": sent_elsewhere & ~is_copy & ~F.col("is_before"),
            "other_partition": F.when(is_extra, F.col("passed.partition")),
            "other_offset": F.when(is_extra, F.col("passed.offset")),
            "may_be_old": is_again & ~is_extra & ~F.col("is_before") & facts.may_be_old(),
            # Nothing is known of a first copy that was deleted.
            "first_time_ms": F.when(
                ~F.col("known_in_clean"), F.coalesce("first.time_ms", "first_time_ms")
            ),
        }
    )
    told = ("is_known", "times", "passes_before", "raw_body", "clean_body")
    return judged.drop("unaltered", "first", "passed", "was_sent", "known_in_raw", *told)


def corrections_of(judged: DataFrame, facts: Facts = NO_FACTS) -> DataFrame:
    """Return the verdicts that `corrections.corrected` replaces."""
    found = reordered(judged, facts)
    # The time of the stream costs a shuffle, and most streams have no such repeat.
    return found.unionByName(old_repeats(judged, facts)) if has_old(judged) else found


def summarise(judged: DataFrame, facts: Facts = NO_FACTS) -> DataFrame:
    """Return the counts of records, one row per partition.

    `forgettable` is the number of repeats that a table of fixed size is expected to forget at most.
    """
    between = F.col("raw_position") - F.col("first_position")
    is_measured = (F.col("copy") > 1) | F.lit(facts.between is not None)
    forgettable = F.when(is_measured, facts.share_forgotten(between)).otherwise(1.0)
    is_judged_raw = _in_raw() & ~F.col("pending") & (F.col("verdict") != "before_output")
    has_id, is_repeat = F.col("has_id"), F.col("is_repeat")
    is_unique = has_id & ~is_repeat & ~F.col("is_late")
    names = ("removed", "late", *EXCUSES, *DEFECTS)
    verdicts = [F.count_if(F.col("verdict") == name).alias(name) for name in names]
    return (
        judged.groupBy("partition")
        .agg(
            F.count("raw_offset").alias("raw_records"),
            F.count("clean_offset").alias("clean_records"),
            F.count_if("pending").alias("pending"),
            F.count_if(is_judged_raw & is_unique).alias("unique_ids"),
            F.count_if(is_judged_raw & is_repeat).alias("repeats"),
            F.count_if("repeats_another_partition").alias("repeats_in_another_partition"),
            F.count_if(is_judged_raw & ~has_id).alias("without_id"),
            F.count("other_partition").alias("duplicated_in_another_partition"),
            F.count_if((F.col("verdict") == "removed") & F.col("is_other")).alias(
                "removed_with_other_content"
            ),
            F.coalesce(F.sum(F.when(is_repeat, forgettable)), F.lit(0.0)).alias("forgettable"),
            *verdicts,
        )
        .orderBy("partition")
    )


def examples(judged: DataFrame, limit: int) -> DataFrame:
    """Return the first `limit` defects within partitions, then as many across them.

    Columns: verdict, partition, raw and clean offset, the other place with the id, and the origin if it is known.
    """
    in_order = judged.where(F.col("verdict").isin(*DEFECTS)).orderBy(
        "partition", F.coalesce("raw_offset", "clean_offset")
    )
    is_within = F.col("other_partition").isNull()
    within, across = (in_order.where(kind).limit(limit) for kind in (is_within, ~is_within))
    return within.unionByName(across).select(
        *("verdict", "partition", "raw_offset", "clean_offset", "other_partition", "other_offset"),
        *(["origin"] if "origin" in judged.columns else []),
    )


def _in_raw() -> Column:
    return F.col("raw_offset").isNotNull()


def _in_clean() -> Column:
    return F.col("clean_offset").isNotNull()


def _no() -> Column:
    return F.lit(False)
