"""Run the job `aggregate`: add the output topic's records to PostgreSQL.

The command `dedupe-pipeline aggregate` calls it. The database holds the only state: the rows, and the offsets from
which they were counted. Spark's checkpoint is temporary and lasts for one run; each run begins at the offsets in the
database.

Invariant: a record is counted exactly once, wherever the process is killed:

1. before the batch's transaction: nothing was changed, and the next run begins at the same offset;
2. within it: PostgreSQL rolls back both rows and offsets;
3. after its commit: both are stored, and the next run begins after them, whatever Spark's state is;
4. during the commit, so that its outcome is unknown: as 2 or 3. The next attempt, of this process with a new connection
   or of the next process, reads the offsets first.

A batch that is repeated in whole or in part adds only what is missing, see `increments`. So a batch whose rows exceed
what Spark's driver accepts is added in parts, each with its own end offsets and transaction. A lock excludes a second
process; if the lock is lost, the check of the offsets does.
"""

import json
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.cluster import Cluster
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import DatabaseFailed, JobRefused
from dedupe_pipeline.jobs.aggregate.batch_parts import first_part, offsets_of, smaller
from dedupe_pipeline.jobs.aggregate.columns import Shape, shape_of
from dedupe_pipeline.jobs.aggregate.exactly_once_writer import Database, ProgressChanged
from dedupe_pipeline.jobs.aggregate.increments import Fate, Progress, increments
from dedupe_pipeline.jobs.aggregate.job_file import AggregateJob
from dedupe_pipeline.jobs.aggregate.metadata_table import Source
from dedupe_pipeline.jobs.aggregate.postgres_connection import Postgres
from dedupe_pipeline.jobs.aggregate.sql import TableSql
from dedupe_pipeline.jobs.streaming import (
    Left,
    OnWritten,
    current_topic_id,
    ignore_written,
    left_before,
    planned_ends,
    run_batches,
)
from dedupe_pipeline.runtime.portable import refuse_remote, to_arrow
from dedupe_pipeline.source import read_clean_stream


@dataclass(frozen=True, kw_only=True)
class AggregateResult:
    """The additions of one run.

    `batches` are the transactions with rows: a batch that was divided counts as several.
    `counted` and `late` are additions to windows, `records`, `filtered` and `unusable` are records. `left` is what a
    stopped run has not counted of the records that were there at its start.
    """

    batches: int = 0
    records: int = 0
    counted: int = 0
    late: int = 0
    filtered: int = 0
    unusable: int = 0
    left: Left = field(default_factory=dict)


def aggregate(
    spark: SparkSession,
    stream: DedupeStream,
    job: AggregateJob,
    postgres: Postgres,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    spark_kafka_options: Mapping[str, str] | None = None,
    every: timedelta | None = None,
    max_offsets_per_trigger: int = 500_000,
    skip_deleted: bool = False,
    patience: timedelta = timedelta(minutes=2),
    lock_patience: timedelta = timedelta(seconds=30),
    stop: threading.Event | None = None,
    on_written: OnWritten = ignore_written,
) -> AggregateResult:
    """Add the output topic's present records; with `every`, run until `stop` is set.

    A batch has at most `max_offsets_per_trigger` records; the rows that it adds pass through this process. `patience`
    limits the wait for an unreachable database or broker, `lock_patience` that for another job on the table.

    Raises:
        JobRefused: the job file does not fit the topic or the table, or another job adds to the table, or the topic was
            deleted and created again.
        RecordsExpired: the topic deleted records that were not counted yet, unless `skip_deleted`.
        DatabaseFailed: PostgreSQL cannot be reached within `patience`, or refuses a statement.
        PipelineError: Spark failed; the next run continues where this run stopped.
    """
    refuse_remote(spark, "aggregate")
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options, spark_kafka_options)
    topic, stop = stream.spec.output.topic, stop or threading.Event()
    shape, cluster = shape_of(spark, job), connection.cluster()
    offsets = cluster.offsets(topic)
    source = Source(topic_id=offsets.id, offsets=offsets, definition=job.definition())
    table_sql = TableSql.of(job, shape)
    database = Database(
        postgres, table_sql, patience=patience, lock_patience=lock_patience, stop=stop
    )
    with database, tempfile.TemporaryDirectory(prefix="dedupe-aggregate-") as checkpoint:
        progress = database.register(source, skip_deleted=skip_deleted)
        check_topic = partial(
            check_same_topic, cluster, topic, source.topic_id, patience=patience, stop=stop
        )
        run = AggregateRun(
            job, shape, database, progress, checkpoint=Path(checkpoint), check_topic=check_topic
        )
        run.on_written = on_written
        records = read_clean_stream(
            spark,
            stream,
            bootstrap_servers=bootstrap_servers,
            kafka_options=kafka_options,
            spark_kafka_options=spark_kafka_options,
            starting_offsets=starting_offsets(topic, progress),
            max_offsets_per_trigger=max_offsets_per_trigger,
        )
        doing, work = f"counting for {job.table}", Path(checkpoint)
        run_batches(records, run.add_batch, doing, checkpoint=work, every=every, stop=stop)
        return run.result(offsets.ends)


def starting_offsets(topic: str, progress: Mapping[int, Progress]) -> str:
    """Return the next offset of each partition, as JSON for Spark's Kafka source."""
    starts = {str(number): at.next_offset for number, at in sorted(progress.items())}
    return json.dumps({topic: starts})


class AggregateRun:
    """The state that the batches of one run share."""

    def __init__(
        self,
        job: AggregateJob,
        shape: Shape,
        database: Database,
        progress: Mapping[int, Progress],
        *,
        checkpoint: Path,
        check_topic: Callable[[], None],
    ) -> None:
        self.on_written: OnWritten = ignore_written
        self._job = job
        self._shape = shape
        self._database = database
        self._progress = dict(progress)
        self._checkpoint = checkpoint
        self._check_topic = check_topic
        self._most_offsets: int | None = None  # of a part; smaller after Spark has refused one
        self._batches = 0
        self._sums = dict.fromkeys(("records", *Fate), 0)

    def add_batch(self, records: DataFrame, batch: int) -> None:
        """Add one batch; Spark repeats the call with the same offsets until it succeeds."""
        rows = self.add(records, planned_ends(self._checkpoint, batch))
        self.on_written(batch, rows)

    def add(self, records: DataFrame, ends: Mapping[int, int]) -> int:
        """Add those of `records`, which end before `ends`, that are not added yet.

        They are added in parts, each in a separate transaction, if Spark's driver refuses the rows of all. Return the
        number of rows that were added.
        """
        added = 0
        while True:
            part = first_part(self._progress, ends, self._most_offsets)
            schema = self._shape.schema
            try:
                found = to_arrow(increments(records, self._job, schema, self._progress, part))
            except (PySparkException, Py4JError) as error:
                self._most_offsets = smaller(error, offsets_of(self._progress, part))
                continue
            self._check_topic()  # after the read: the records are of the same topic
            try:
                self._progress = self._database.add(found, part, self._progress)
            except ProgressChanged as moved:
                check_not_behind(self._job.table, self._progress, moved.progress)
                self._progress = moved.progress
            else:
                self._count(found)
                added += len(found)
                if part == ends:
                    return added

    def result(self, ends: Mapping[int, int]) -> AggregateResult:
        """Return the sums over all batches, and what is not counted before `ends`."""
        reached = {number: at.next_offset for number, at in self._progress.items()}
        sums: dict[str, Any] = {"batches": self._batches, **self._sums}
        return AggregateResult(left=left_before(ends, reached), **sums)

    def _count(self, found: pa.Table) -> None:
        self._batches += (
            found.num_rows > 0
        )  # a run begins with an empty batch if there are no new records
        for fate in Fate:
            rows = found.filter(pc.equal(found["_fate"], fate.value))
            records = pc.sum(rows["_records"]).as_py() or 0
            in_windows = fate in {Fate.COUNTED, Fate.LATE}
            self._sums["records"] += records
            self._sums[fate] += (pc.sum(rows["_additions"]).as_py() or 0) if in_windows else records


def check_same_topic(
    cluster: Cluster, topic: str, topic_id: str, *, patience: timedelta, stop: threading.Event
) -> None:
    """Check that a topic is still the counted one, with retries for up to `patience`.

    Raises:
        JobRefused: the topic was deleted and created again, so its offsets are of other records.
        StreamError: Kafka did not return the topic's id in time.
    """
    found = current_topic_id(cluster, topic, patience=patience, stop=stop)
    if found != topic_id:
        raise JobRefused(
            f"topic {topic!r} was deleted and created again while it was counted: name another table in the "
            "job file, or drop this table to start again"
        )


def check_not_behind(
    table: str, known: Mapping[int, Progress], found: Mapping[int, Progress]
) -> None:
    """Check that the database has not lost any progress.

    It may have more than is known, after a commit whose answer was lost.

    Raises:
        DatabaseFailed: records that were counted no longer are.
    """
    for number, progress in known.items():
        at = found[number].next_offset if number in found else 0
        if at < progress.next_offset:
            raise DatabaseFailed(
                f"{table}: the database went back to an earlier state: partition {number} was counted to "
                f"before offset {progress.next_offset}, and is to before {at}; run the job again, it "
                "continues there"
            )
