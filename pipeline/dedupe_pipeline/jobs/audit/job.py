"""Run the job `audit`: read both topics of a stream, add verdicts, and summarise.

The command `dedupe-pipeline audit` and the examples call it.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.storagelevel import StorageLevel

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.spec.topics import Mode
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.jobs.audit import statistics, verdicts
from dedupe_pipeline.jobs.audit.identity import with_identity
from dedupe_pipeline.jobs.audit.result import (
    AuditResult,
    Bin,
    Defect,
    Distribution,
    PartitionAudit,
    TimeSlice,
)
from dedupe_pipeline.source import read_range

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
    up_to_committed: bool = False,
) -> AuditResult:
    """Compare the input and the output topic of a stream.

    The output topic must account for every raw record. With `up_to_committed` it must account only for those that the
    stream's consumer group has committed, so that a running stream can be audited; later records are pending.

    Raises:
        BrokerUnavailable, TopicMissing: a topic cannot be read.
        OpenTransaction: a transaction of the output topic does not end.
        PipelineError: the id's JSONPath is not valid.
    """
    began = time.monotonic()
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options)
    raw, clean, judged_before = _offsets_to_read(connection.cluster(), stream, up_to_committed)
    history = verdicts.history_of(
        with_identity(read_range(spark, connection, raw), stream.spec.id),
        with_identity(read_range(spark, connection, clean), stream.spec.id),
    )
    with _persisted(_judge(history, judged_before, stream.spec.mode)) as judged:
        counts = {row["partition"]: row.asDict() for row in verdicts.summarise(judged).collect()}
        partitions = tuple(
            _partition(number, counts.get(number, {}))
            for number in sorted({*raw.ends, *clean.ends, *counts})
        )
        extent = statistics.extent(judged).collect()[0]
        return AuditResult(
            stream=stream.shown,
            raw_topic=raw.topic,
            clean_topic=clean.topic,
            mode=stream.spec.mode,
            judged_at=datetime.now(UTC),
            partitions=partitions,
            **_distributions(judged, extent),
            timeline=_timeline(judged, extent["time_ms"]),
            examples=_examples(judged) if any(p.defects for p in partitions) else (),
            warnings=tuple(_warnings(raw, clean)),
            seconds=time.monotonic() - began,
        )


def _judge(history: DataFrame, judged_before: Mapping[int, int], mode: Mode) -> DataFrame:
    pairs = verdicts.pair_copies(verdicts.number_copies(history))
    compared = verdicts.compare_partitions(verdicts.mark_pending(pairs, judged_before))
    removes = mode is Mode.ENFORCE
    return verdicts.find_reordered(verdicts.add_verdicts(compared, removes=removes))


def _offsets_to_read(
    cluster: Cluster, stream: DedupeStream, up_to_committed: bool
) -> tuple[TopicOffsets, TopicOffsets, dict[int, int]]:
    """Return the offsets to read, queried in the order that a running stream requires.

    First the progress of the input, then the output topic once it contains all of that (a commit reaches the group's
    offsets and the topic's partitions one after the other), and last the input topic, so that it contains every record
    from which the output topic was made.
    """
    raw_topic, clean_topic = stream.spec.input.single, stream.spec.output.topic
    if up_to_committed:
        judged_before = cluster.committed(stream.consumer_group, raw_topic)
    else:
        judged_before = cluster.offsets(raw_topic).ends
    clean = cluster.settled_offsets(clean_topic)
    raw = cluster.offsets(raw_topic)
    return raw, clean, judged_before


@contextmanager
def _persisted(table: DataFrame) -> Iterator[DataFrame]:
    """Cache a table for several queries, on disk if the memory is too small."""
    table.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield table
    finally:
        table.unpersist()


def _partition(number: int, counts: Mapping[str, int]) -> PartitionAudit:
    names = PartitionAudit.__dataclass_fields__
    return PartitionAudit(**{name: counts.get(name, 0) for name in names} | {"partition": number})


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


def _warnings(raw: TopicOffsets, clean: TopicOffsets) -> Iterator[str]:
    for offsets, consequence in (
        (raw, "their copies in the output topic seem foreign or altered"),
        (clean, "their raw records seem lost"),
    ):
        cut = [partition for partition, start in offsets.lows.items() if start > 0]
        if cut:
            yield (
                f"Retention has deleted the oldest records of {offsets.topic!r} (partitions "
                f"{', '.join(map(str, sorted(cut)))}): {consequence}."
            )
