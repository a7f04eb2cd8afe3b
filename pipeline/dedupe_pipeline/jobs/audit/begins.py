"""Find where the records of both topics begin to correspond.

The job `audit` calls it. An audit reads an input from where retention or an option makes it begin, and an output from
where retention does. What stands before in the other topic can't be judged. No record of the output holds its input
offset, so the place is found by content: the first records of the one topic are looked up in the other. Some of the
input's may be repeats whose equal first copy lies further back, so the median of their places counts: half of them may
be such repeats, and a defect would have to move half of them to shift it. Of the output's hardly any are, so their
place is nearly the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.stream import Spec
from dedupe_crds.spec.topics import IdSource
from dedupe_kafka.offsets import Place, TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.jobs.audit.excuses import Facts
from dedupe_pipeline.jobs.audit.identity import with_identity
from dedupe_pipeline.jobs.audit.parallel import read_tasks
from dedupe_pipeline.jobs.audit.ranges import Ranges
from dedupe_pipeline.jobs.audit.told_ids import ToldIds
from dedupe_pipeline.runtime.portable import parallelism
from dedupe_pipeline.source import read_ranges

FIRST_OFFSETS = 200
"""Offsets of each partition whose records are looked up."""

_OF_INPUT, _OF_OUTPUT = 0.5, 0.05
_ALL = 1 << 62


def facts_about(
    spark: SparkSession,
    connection: KafkaConnection,
    spec: Spec,
    ranges: Ranges,
    told: ToldIds,
    *,
    now: datetime,
    is_first: bool = True,
) -> Facts:
    """Return what is known about a stream besides the records that are judged.

    Unless the audit is the first one, the place where the topics begin is known already, and not looked up.
    """
    same = spec.repartition is None
    clean = ranges.clean
    begins, accounted = (
        correspondence(
            spark, connection, heads, others, spec.id, quantile=share, same_partition=same
        )
        if is_first
        else dict[Place, int]()
        for heads, others, share in (
            (ranges.raw, [clean], _OF_INPUT),
            ([clean], ranges.raw, _OF_OUTPUT),
        )
    )
    return Facts.of(
        spec,
        now_ms=int(now.timestamp() * 1000),
        begins={number: at for (_, number), at in begins.items()},
        accounted_from={number: at for (_, number), at in accounted.items()}
        if same
        else {f"{topic}/{number}": at for (topic, number), at in accounted.items()},
        known=told.known_ids(spark, connection, spec.id),
        forgotten=told.forgotten_ids(spark, spec.id),
        between=None if same else sum(clean.ends.values()) - sum(clean.lows.values()),
    )


def correspondence(
    spark: SparkSession,
    connection: KafkaConnection,
    heads: Sequence[TopicOffsets],
    others: Sequence[TopicOffsets],
    source: IdSource,
    *,
    quantile: float,
    same_partition: bool = True,
) -> dict[Place, int]:
    """Return up to which offset records of `others` may have no counterpart.

    It is for each partition that has one.

    That is where a partition of `heads` does not begin with offset 0. A place without a match is not there: nothing
    proves that its records are older. Without `same_partition`, records of a partition of `heads` are looked up in all
    of the others.
    """
    span = FIRST_OFFSETS if same_partition else FIRST_OFFSETS * len(others[0].ends)
    cut = {
        (each.topic, number): low for each in heads for number, low in each.lows.items() if low > 0
    }
    if not cut:
        return {}
    some = {place: low for place, low in cut.items() if low < _ends(heads)[place]}
    if not same_partition and not some:
        return dict.fromkeys(_ends(others), _ALL)
    found = {} if same_partition else dict[Place, int]()
    if some:
        first = read_ranges(spark, connection, [_first(each, some, span) for each in heads])
        wanted = {number for _, number in some} if same_partition else None
        only = [_only(each, wanted) for each in others]
        tasks = read_tasks(only, parallelism(spark))
        rest = read_ranges(spark, connection, only, tasks=tasks)
        matched = _matched(_identified(first, source), _identified(rest, source), same_partition)
        found = _places(matched, quantile)
    if same_partition:
        # Nothing is left to look up, so all of the other topic is older.
        empty = {number for (_, number) in cut.keys() - some.keys()}
        found |= {place: _ALL for place in _ends(others) if place[1] in empty}
    return found


def _matched(first: DataFrame, rest: DataFrame, same_partition: bool) -> DataFrame:
    """Return the records of `rest` that equal one of `first`, with the place of that."""
    known = first.select(
        F.concat_ws("/", "topic", "partition").alias("origin"),
        F.col("partition").alias("origin_partition"),
        F.col("offset").alias("first_offset"),
        "digest",
    )
    matched = rest.join(F.broadcast(known), "digest")
    if same_partition:
        return matched.where(F.col("partition") == F.col("origin_partition"))
    return matched


def _places(matched: DataFrame, quantile: float) -> dict[Place, int]:
    """Return the quantile of the places; of several origins the latest one."""
    places = matched.groupBy("topic", "partition", "origin", "first_offset").agg(
        F.min("offset").alias("place")
    )
    of_origin = places.groupBy("topic", "partition", "origin").agg(
        F.percentile_approx("place", quantile, 10_000).alias("place")
    )
    latest = of_origin.groupBy("topic", "partition").agg(F.max("place").alias("place"))
    return {(row["topic"], row["partition"]): row["place"] for row in latest.collect()}


def _identified(records: DataFrame, source: IdSource) -> DataFrame:
    return with_identity(records, source, keep=("topic",)).select(
        "topic", "partition", "offset", "digest"
    )


def _ends(topics: Sequence[TopicOffsets]) -> dict[Place, int]:
    return {(each.topic, number): end for each in topics for number, end in each.ends.items()}


def _first(offsets: TopicOffsets, some: Mapping[Place, int], span: int) -> TopicOffsets:
    """Return the first offsets of the partitions in `some`, and none of the others."""
    lows = {
        number: low if (offsets.topic, number) in some else offsets.ends[number]
        for number, low in offsets.lows.items()
    }
    return replace(
        offsets,
        lows=lows,
        ends={number: min(end, lows[number] + span) for number, end in offsets.ends.items()},
    )


def _only(offsets: TopicOffsets, partitions: set[int] | None) -> TopicOffsets:
    if partitions is None:
        return offsets
    lows = {
        number: low if number in partitions else offsets.ends[number]
        for number, low in offsets.lows.items()
    }
    return replace(offsets, lows=lows)
