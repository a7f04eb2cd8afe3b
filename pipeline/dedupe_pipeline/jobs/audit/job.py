"""Run the job `audit`: read both topics of a stream, add verdicts, and summarise.

The command `dedupe-pipeline audit` and the examples call it.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.storagelevel import StorageLevel

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.spec.topics import IdSource, Mode
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.jobs.audit import repartitioned, statistics, verdicts
from dedupe_pipeline.jobs.audit.begins import facts_about
from dedupe_pipeline.jobs.audit.bounds import Bounds
from dedupe_pipeline.jobs.audit.excuses import Facts, most_forgotten
from dedupe_pipeline.jobs.audit.identity import as_in_the_input, hash_of_key, with_identity
from dedupe_pipeline.jobs.audit.ranges import Ranges, ranges_to_audit, unjudged
from dedupe_pipeline.jobs.audit.result import (
    AuditResult,
    Bin,
    Defect,
    Distribution,
    PartitionAudit,
    TimeSlice,
)
from dedupe_pipeline.jobs.audit.told_ids import ToldIds
from dedupe_pipeline.jobs.landed_output import read_landed
from dedupe_pipeline.source import read_range, read_ranges
from dedupe_pipeline.table_target import TableTarget

_EVERYTHING = Bounds()
_NONE_TOLD = ToldIds()
_EXAMPLES = 20
_BINS_PER_DECADE = 5
_TIME_SLICES = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OLDEST_MS = -62_135_596_800_000  # year 1, the first that Python's datetime can hold
_NEWEST_MS = 253_402_300_799_999


def audit(
    spark: SparkSession,
    stream: DedupeStream,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    spark_kafka_options: Mapping[str, str] | None = None,
    up_to_committed: bool = False,
    bounds: Bounds = _EVERYTHING,
    told: ToldIds = _NONE_TOLD,
    landed: TableTarget | None = None,
) -> AuditResult:
    """Compare the input topics and the output topic of a stream.

    The output topic must account for every raw record. With `up_to_committed` it must account only for those that the
    stream's consumer group has committed, so that a running stream can be audited; later records are pending. With a
    repartition they are those that the routers have committed. `bounds` are the part of the input to judge, `told` the
    ids that no topic shows as known or forgotten. `landed` is read instead of the output topic, as far as that has
    landed in it.

    Raises:
        BrokerUnavailable, TopicMissing: a topic cannot be read.
        OpenTransaction: a transaction of the output topic does not end.
        NothingCommitted: the consumer group has committed nothing of an input that has records.
        PipelineError: the id's JSONPath is not valid, or the workers lag behind the routers.
    """
    began = time.monotonic()
    spec, connection = (
        stream.spec,
        KafkaConnection.of(stream, bootstrap_servers, kafka_options, spark_kafka_options),
    )
    ranges = ranges_to_audit(connection, stream, up_to_committed=up_to_committed, bounds=bounds)
    facts = facts_about(spark, connection, spec, ranges, told, now=datetime.now(UTC))
    clean = (
        read_landed(spark, connection, landed, ranges.clean)
        if landed
        else read_range(spark, connection, ranges.clean)
    )
    with _persisted(_judge(spark, connection, stream, clean, ranges=ranges, facts=facts)) as judged:
        rows = [row.asDict() for row in verdicts.summarise(judged, facts).collect()]
        excess = _refuse_excess(rows)
        counts = {row["partition"]: row for row in rows}
        raw = ranges.raw if spec.repartition is None else ()
        numbers = {*ranges.clean.ends, *(number for each in raw for number in each.ends), *counts}
        partitions = tuple(
            _partition(number, counts.get(number, {}))
            for number in sorted(numbers, key=lambda number: (number is None, number))
        )
        extent = statistics.extent(judged).collect()[0]
        return AuditResult(
            stream=stream.shown,
            raw_topic=spec.input.shown,
            clean_topic=ranges.clean.topic,
            late_topic=ranges.late.topic if ranges.late else None,
            repartitioned_by=spec.repartition.by if spec.repartition else None,
            mode=spec.mode,
            judged_at=datetime.now(UTC),
            partitions=partitions,
            **_distributions(judged, extent),
            timeline=_timeline(judged, extent["time_ms"]),
            examples=_examples(judged) if any(p.defects for p in partitions) else (),
            warnings=(*_warnings(ranges), *excess),
            seconds=time.monotonic() - began,
        )


def _refuse_excess(rows: list[dict[str, Any]]) -> list[str]:
    """Count what a table has forgotten as duplicated if it can't be so much."""
    passed = sum(row["forgotten"] for row in rows)
    most = most_forgotten(sum(row["forgettable"] for row in rows))
    if passed <= most:
        return []
    for row in rows:
        row["duplicated"] += row["forgotten"]
        row["forgotten"] = 0
    return [
        f"{passed:,} repeats passed, and a table of this size forgets {most:,} of them at most. If it was smaller when "
        "they came, judge what came later with --since."
    ]


def _judge(
    spark: SparkSession,
    connection: KafkaConnection,
    stream: DedupeStream,
    output: DataFrame,
    *,
    ranges: Ranges,
    facts: Facts,
) -> DataFrame:
    spec, late = stream.spec, None
    clean = with_identity(output, spec.id)
    if ranges.late is not None:
        routed = read_range(spark, connection, ranges.late)
        late = with_identity(as_in_the_input(routed), spec.id)
    sent = read_ranges(spark, connection, ranges.raw)
    removes = spec.mode is Mode.ENFORCE
    if spec.repartition is not None:
        by = spec.repartition.by
        raw = _with_origins(spark, sent, spec.id, by, ranges.judged_before)
        history = repartitioned.history_of(raw, clean, late, facts)
        return repartitioned.judge(history, by=by, removes=removes, facts=facts)
    history = verdicts.history_of(with_identity(sent, spec.id), clean, late)
    pairs = verdicts.pair_copies(verdicts.number_copies(history, facts))
    before = {partition: offset for (_, partition), offset in ranges.judged_before.items()}
    compared = verdicts.compare_partitions(verdicts.mark_pending(pairs, before))
    judged = verdicts.add_verdicts(compared, removes=removes, facts=facts)
    return verdicts.find_reordered(judged, facts)


def _with_origins(
    spark: SparkSession,
    sent: DataFrame,
    source: IdSource,
    by: RepartitionBy,
    judged_before: Mapping[tuple[str, int], int],
) -> DataFrame:
    """Return the raw records as `repartitioned.history_of` takes them."""
    rows = [(f"{topic}/{number}", offset) for (topic, number), offset in judged_before.items()]
    bounds = spark.createDataFrame(rows, "origin STRING, before BIGINT")
    placed = sent.withColumns(
        {"origin": F.concat_ws("/", "topic", "partition"), "order_by": hash_of_key()}
    )
    identified = with_identity(placed, source, keep=("origin", "order_by"))
    ordered_by = F.col("order_by") if by is RepartitionBy.KEY else F.col("ident")
    # An origin that the bounds lack is new since they were read.
    return (
        identified.join(F.broadcast(bounds), "origin", "left")
        .withColumns({"before": F.coalesce("before", F.lit(0)), "in_order": ordered_by})
        .drop("order_by")
    )


@contextmanager
def _persisted(table: DataFrame) -> Iterator[DataFrame]:
    """Cache a table for several queries, on disk if the memory is too small."""
    table.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield table
    finally:
        table.unpersist()


def _partition(number: int | None, counts: Mapping[str, int]) -> PartitionAudit:
    names = PartitionAudit.__dataclass_fields__
    found = {name: counts.get(name, 0) for name in names if name != "partition"}
    return PartitionAudit(partition=number, **found)


def _distributions(judged: DataFrame, extent: Row) -> dict[str, Distribution]:
    binned = statistics.count_in_bins(judged, _BINS_PER_DECADE).collect()

    def spread(measure: str, unit: str) -> Distribution:
        found = [(row["bin"], row["records"]) for row in binned if row["measure"] == measure]
        quantiles = extent[measure] or [None] * len(statistics.QUANTILES)
        return Distribution(
            unit=unit,
            bins=tuple(sorted((_bin(*row) for row in found), key=attrgetter("low"))),
            **dict(zip(("p50", "p90", "p99", "maximum"), quantiles, strict=True)),
        )

    return {"delay": spread("delay_ms", "ms"), "distance": spread("distance", "records")}


def _bin(number: int | None, records: int) -> Bin:
    if number is None:
        return Bin(low=0, high=1, records=records)
    low, high = (10 ** (edge / _BINS_PER_DECADE) for edge in (number, number + 1))
    return Bin(low=low, high=high, records=records)


def _timeline(judged: DataFrame, ends: list[int] | None) -> tuple[TimeSlice, ...]:
    """Return about a hundred slices of the period that contains nearly all records."""
    if ends is None:
        return ()
    start, end = max(ends[0], _OLDEST_MS), min(ends[1], _NEWEST_MS)
    width = max(1, math.ceil((end - start + 1) / _TIME_SLICES))
    counted = statistics.count_over_time(judged, start, width).collect()
    slices = {row["bucket"]: row.asDict() for row in counted}

    def time_slice(bucket: int) -> TimeSlice:
        counts = slices.get(bucket, {})
        return TimeSlice(
            start=_EPOCH + timedelta(milliseconds=start + bucket * width),
            seconds=width / 1000,
            **{name: counts.get(name, 0) for name in ("raw", "clean", "repeats")},
        )

    return tuple(map(time_slice, range((end - start) // width + 1)))


def _examples(judged: DataFrame) -> tuple[Defect, ...]:
    return tuple(Defect(**row.asDict()) for row in verdicts.examples(judged, _EXAMPLES).collect())


def _warnings(ranges: Ranges) -> Iterator[str]:
    if places := unjudged(ranges):
        shown = [f"{topic}/{partition}" for topic, partition in places[:5]]
        yield (
            f"No offset is committed of {len(places):,} input partitions with records, so nothing of them was judged: "
            f"{', '.join(shown)}{', …' if len(places) > 5 else ''}."
        )
    late = ranges.late.lows if ranges.late else {}
    if ranges.late and (cut := [partition for partition, start in late.items() if start > 0]):
        yield (
            f"Retention has deleted the oldest records of {ranges.late.topic!r} (partitions "
            f"{', '.join(map(str, sorted(cut)))}): their raw records seem lost. Judge later ones with --since."
        )
