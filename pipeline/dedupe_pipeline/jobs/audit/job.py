"""Run the job `audit`: read both topics of a stream, add verdicts, and summarise.

The command `dedupe-pipeline audit` and the examples call it.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.spec.topics import IdSource, Mode
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.jobs.audit import corrections, repartitioned, statistics, verdicts
from dedupe_pipeline.jobs.audit.begins import facts_about
from dedupe_pipeline.jobs.audit.bounds import Bounds
from dedupe_pipeline.jobs.audit.excuses import Facts, most_forgotten
from dedupe_pipeline.jobs.audit.identity import as_in_the_input, hash_of_key, with_identity
from dedupe_pipeline.jobs.audit.incremental import Continued, check_supported, only_new
from dedupe_pipeline.jobs.audit.memory import Memory, State
from dedupe_pipeline.jobs.audit.parallel import offsets_of, read_tasks, shuffling
from dedupe_pipeline.jobs.audit.positions import in_task, with_positions
from dedupe_pipeline.jobs.audit.ranges import Ranges, ranges_to_audit, unjudged
from dedupe_pipeline.jobs.audit.result import (
    AuditResult,
    Defect,
    PartitionAudit,
)
from dedupe_pipeline.jobs.audit.told_ids import ToldIds
from dedupe_pipeline.jobs.landed_output import read_landed
from dedupe_pipeline.runtime.portable import parallelism
from dedupe_pipeline.source import read_range, read_ranges
from dedupe_pipeline.table_target import TableTarget

_EVERYTHING = Bounds()
_NONE_TOLD = ToldIds()
_EXAMPLES = 20


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
    memory: Memory | None = None,
) -> AuditResult:
    """Compare the input topics and the output topic of a stream.

    The output topic must account for every raw record. With `up_to_committed` it must account only for those that the
    stream's consumer group has committed, so that a running stream can be audited; later records are pending. With a
    repartition they are those that the routers have committed. `bounds` are the part of the input to judge, `told` the
    ids that no topic shows as known or forgotten. `landed` is read instead of the output topic, as far as that has
    landed in it. With a `memory` only what is new in the topics is read and judged; call its `publish()` once the
    result is reported.

    Raises:
        BrokerUnavailable, TopicMissing: a topic cannot be read.
        OpenTransaction: a transaction of the output topic does not end.
        NothingCommitted: the consumer group has committed nothing of an input that has records.
        AuditNotContinued: the memory is of other topics.
        PipelineError: the id's JSONPath is not valid, or the workers lag behind the routers.
    """
    if memory is not None:
        check_supported(stream, is_bounded=bounds != _EVERYTHING, is_landed=landed is not None)
    began = time.monotonic()
    spec, connection = (
        stream.spec,
        KafkaConnection.of(stream, bootstrap_servers, kafka_options, spark_kafka_options),
    )
    ranges = ranges_to_audit(connection, stream, up_to_committed=up_to_committed, bounds=bounds)
    state = memory.state_for(stream, ranges.raw[0], ranges.clean) if memory else None
    is_first = memory is None or memory.state is None
    if state is not None:
        ranges = only_new(ranges, state)
    now = datetime.now(UTC)
    facts = facts_about(spark, connection, spec, ranges, told, now=now, is_first=is_first)
    if state is not None and not is_first:
        facts = replace(facts, begins=state.begins, accounted_from=state.accounted_from)
    audited = _Audited(
        spark=spark, connection=connection, stream=stream, ranges=ranges, facts=facts, landed=landed
    )
    without_id = told.known_without_id(spark)
    with (
        shuffling(spark, offsets_of(ranges.topics)),
        audited.continued(memory, state) if memory and state else audited.judged() as judged,
    ):
        found = audited.summarised(judged)
    if without_id:
        told_nothing = (
            f"--known {told.known}: {without_id:,} rows have no id, and count for nothing."
        )
        found = replace(found, warnings=(*found.warnings, told_nothing))
    return replace(found, seconds=time.monotonic() - began)


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


@dataclass(frozen=True, kw_only=True)
class _Audited:
    """The topics of a stream to judge, and what is known about them."""

    spark: SparkSession
    connection: KafkaConnection
    stream: DedupeStream
    ranges: Ranges
    facts: Facts
    landed: TableTarget | None

    @property
    def _removes(self) -> bool:
        return self.stream.spec.mode is Mode.ENFORCE

    @contextmanager
    def judged(self) -> Iterator[DataFrame]:
        """Return the verdicts on all records, cached."""
        by = self.stream.spec.repartition.by if self.stream.spec.repartition else None
        raw, clean, late = self._records()
        if by is None:
            verdict = self._verdicts(verdicts.history_of(raw, clean, late)).drop("ident")
        else:
            history = repartitioned.history_of(raw, clean, late, self.facts)
            verdict = repartitioned.judge(history, removes=self._removes, facts=self.facts)
        with corrections.persisted(verdict) as judged:
            changes = (
                verdicts.corrections_of(judged, self.facts)
                if by is None
                else repartitioned.corrections_of(
                    judged, by=by, removes=self._removes, facts=self.facts
                )
            )
            with corrections.corrected(judged, changes) as correct:
                yield with_positions(correct, "partition" if by is None else "origin")

    @contextmanager
    def continued(self, memory: Memory, state: State) -> Iterator[DataFrame]:
        """Return the verdicts on all records that are new since the state."""
        continued = Continued(
            spark=self.spark,
            connection=self.connection,
            source=self.stream.spec.id,
            memory=memory,
            state=state,
            ranges=self.ranges,
            facts=self.facts,
        )
        written = continued.write()
        history = verdicts.history_of(*continued.history(written))
        with (
            corrections.persisted(self._verdicts(history, state.clean)) as judged,
            corrections.corrected(judged, continued.corrections_of(judged)) as correct,
            continued.new_verdicts(correct) as new,
        ):
            yield new
            memory.next = continued.next_state(judged, written)

    def summarised(self, judged: DataFrame) -> AuditResult:
        """Return the result of these verdicts."""
        spec, ranges = self.stream.spec, self.ranges
        rows = [row.asDict() for row in verdicts.summarise(judged, self.facts).collect()]
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
            stream=self.stream.shown,
            raw_topic=spec.input.shown,
            clean_topic=ranges.clean.topic,
            late_topic=ranges.late.topic if ranges.late else None,
            repartitioned_by=spec.repartition.by if spec.repartition else None,
            mode=spec.mode,
            judged_at=datetime.now(UTC),
            partitions=partitions,
            **statistics.distributions(judged, extent),
            timeline=statistics.timeline(judged, extent["time_ms"]),
            examples=_examples(judged) if any(p.defects for p in partitions) else (),
            warnings=(*_warnings(ranges), *excess),
            seconds=0.0,
        )

    def _verdicts(self, history: DataFrame, known: Mapping[int, int] | None = None) -> DataFrame:
        pairs = verdicts.pair_copies(verdicts.number_copies(history, self.facts))
        before = {number: offset for (_, number), offset in self.ranges.judged_before.items()}
        compared = verdicts.compare_partitions(verdicts.mark_pending(pairs, before), known)
        return verdicts.add_verdicts(compared, removes=self._removes, facts=self.facts)

    def _records(self) -> tuple[DataFrame, DataFrame, DataFrame | None]:
        """Return the records of the input, of the output, and the late ones."""
        spec, ranges = self.stream.spec, self.ranges
        source, cores = spec.id, parallelism(self.spark)
        if self.landed:
            passed = read_landed(self.spark, self.connection, self.landed, ranges.clean)
        else:
            tasks = read_tasks([ranges.clean], cores)
            passed = read_range(self.spark, self.connection, ranges.clean, tasks=tasks)
        late = None
        if ranges.late is not None:
            routed = read_range(self.spark, self.connection, ranges.late)
            late = with_identity(as_in_the_input(routed), source)
        tasks = read_tasks(ranges.raw, cores)
        sent = read_ranges(self.spark, self.connection, ranges.raw, tasks=tasks)
        sent = sent.withColumn("position", in_task())
        raw = (
            with_identity(sent, source, keep=("position",))
            if spec.repartition is None
            else _with_origins(self.spark, sent, source, spec.repartition.by, ranges.judged_before)
        )
        return raw, with_identity(passed, source), late


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
    identified = with_identity(placed, source, keep=("origin", "order_by", "position"))
    ordered_by = F.col("order_by") if by is RepartitionBy.KEY else F.col("ident")
    # An origin that the bounds lack is new since they were read.
    return (
        identified.join(F.broadcast(bounds), "origin", "left")
        .withColumns({"before": F.coalesce("before", F.lit(0)), "in_order": ordered_by})
        .drop("order_by")
    )


def _partition(number: int | None, counts: Mapping[str, int]) -> PartitionAudit:
    names = PartitionAudit.__dataclass_fields__
    found = {name: counts.get(name, 0) for name in names if name != "partition"}
    return PartitionAudit(partition=number, **found)


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
