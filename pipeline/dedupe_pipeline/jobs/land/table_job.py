"""Run the job `land` into a table of Iceberg or Delta Lake.

The table is the only state: its rows, and in the same commit the offsets before which everything has landed. Spark's
checkpoint is temporary and lasts for one run; each run begins at the offsets of the table.

Invariant: each record is in the table exactly once, wherever the process is killed:

1. before the commit of a batch: its files are no part of the table, and the next run begins at the same offsets;
2. during the commit, so that its outcome is unknown: as 1 or 3;
3. after it: the next run begins behind the batch, whatever Spark knew.

A second process, or one that was frozen and resumes, finds other offsets than those that its batch follows. The
comparison is a part of the commit (`LandingTable.append`), so it ends without having appended.
"""

import json
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.columns import CORRUPT, columns_to_land, in_few_files
from dedupe_pipeline.jobs.land.job import LandResult
from dedupe_pipeline.jobs.land.landed_offsets import LandedOffsets
from dedupe_pipeline.jobs.land.open_table import open_table
from dedupe_pipeline.jobs.land.table import LandingTable
from dedupe_pipeline.jobs.streaming import (
    OnWritten,
    current_topic_id,
    ignore_written,
    left_before,
    planned_ends,
    run_batches,
    translate_start_errors,
)
from dedupe_pipeline.runtime.portable import refuse_remote
from dedupe_pipeline.source import SCHEMA, read_clean_stream
from dedupe_pipeline.table_target import TableFormat, TableTarget


@dataclass(frozen=True)
class TableOptions:
    """The shape of the rows and the upkeep of the table.

    `partition_by` is one partition or several besides the day of the timestamp, in Spark's SQL. After every
    `compact_every` batches the table is compacted.
    """

    json_schema: str | None = None
    partition_by: str | Sequence[str] = ()
    compact_every: int | None = None

    @property
    def partitions(self) -> Sequence[str]:
        """Return `partition_by` as a sequence: a text is one partition, not its letters."""
        return [self.partition_by] if isinstance(self.partition_by, str) else self.partition_by


def land_table(
    spark: SparkSession,
    stream: DedupeStream,
    target: TableTarget,
    options: TableOptions | None = None,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    spark_kafka_options: Mapping[str, str] | None = None,
    every: timedelta | None = None,
    max_offsets_per_trigger: int = 500_000,
    patience: timedelta = timedelta(minutes=2),
    stop: threading.Event | None = None,
    on_written: OnWritten = ignore_written,
) -> LandResult:
    """Land the output topic's present records in a table.

    With `every`, run until `stop` is set. The table is created if it is absent. Columns are those of `land`, but an
    Iceberg table has no `date`: it is partitioned by the day of `timestamp`. `patience` limits the wait for an
    unreachable broker.

    Raises:
        LandingRefused: table and topic do not belong together, or the table has other columns.
        LandingOvertaken: another process has landed the topic in the table meanwhile.
        PipelineError: Spark failed; the next run continues where this run stopped.
    """
    refuse_remote(spark, "land")
    topic = stream.spec.output.topic
    stop = stop or threading.Event()
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options, spark_kafka_options)
    cluster = connection.cluster()
    present = cluster.offsets(topic)
    with tempfile.TemporaryDirectory(prefix="dedupe-land-") as checkpoint:
        topic_id = partial(current_topic_id, cluster, topic, patience=patience, stop=stop)
        run = _TableRun(target, options or TableOptions(), Path(checkpoint), present, topic_id)
        run.on_written = on_written
        doing = f"landing {topic!r} in {target.name}"
        with translate_start_errors(doing):
            starts = run.prepare(spark)
        records = read_clean_stream(
            spark,
            stream,
            bootstrap_servers=bootstrap_servers,
            kafka_options=kafka_options,
            spark_kafka_options=spark_kafka_options,
            starting_offsets=json.dumps({topic: {str(n): at for n, at in starts.items()}}),
            max_offsets_per_trigger=max_offsets_per_trigger,
        )
        work = Path(checkpoint)
        run_batches(records, run.land_batch, doing, checkpoint=work, every=every, stop=stop)
        return run.result()


class _TableRun:
    """The state that the batches of one run share."""

    _table: LandingTable
    _landed: LandedOffsets

    def __init__(
        self,
        target: TableTarget,
        options: TableOptions,
        checkpoint: Path,
        present: TopicOffsets,
        topic_id: Callable[[], str],
    ) -> None:
        self.topic = present.topic
        self.target = target
        self.on_written: OnWritten = ignore_written
        self._options = options
        self._checkpoint = checkpoint
        self._present = present
        self._topic_id = topic_id
        self._batches = self._records = self._corrupt = 0

    def prepare(self, spark: SparkSession) -> Mapping[int, int]:
        """Prepare the table, and return the offset at which each partition continues."""
        self._table = open_table(spark, self.target)
        empty = spark.createDataFrame([], SCHEMA)
        start = LandedOffsets(
            topic=self.topic, topic_id=self._present.id, offsets=self._present.lows
        )
        schema = self._rows(empty).schema
        self._landed = self._table.prepare(schema, self._options.partitions, start)
        check_belongs(self.target.name, self._landed, self._present)
        return {number: self._landed.offsets.get(number, 0) for number in self._present.ends}

    def result(self) -> LandResult:
        """Return the sums over all batches, and what has not landed."""
        left = left_before(self._present.ends, self._present.lows | dict(self._landed.offsets))
        return LandResult(
            batches=self._batches, records=self._records, corrupt=self._corrupt, left=left
        )

    def land_batch(self, records: DataFrame, batch: int) -> None:
        """Land one batch; Spark repeats the call with the same offsets until it succeeds."""
        after = self._landed.with_ends(planned_ends(self._checkpoint, batch))
        if after.total == self._landed.total:
            return  # the first batch of a run without new records
        counted = Observation()
        corrupt = F.count(CORRUPT) if self._options.json_schema else F.lit(0)
        sums = (F.count(F.lit(1)).alias("records"), corrupt.alias("corrupt"))
        rows = self._rows(records).observe(counted, *sums)
        self._table.append(rows, self._landed, after, self._check_topic)
        self._landed = after
        self._batches += 1
        self._records += counted.get["records"]
        self._corrupt += counted.get["corrupt"]
        self.on_written(batch, counted.get["records"])
        if self._options.compact_every and self._batches % self._options.compact_every == 0:
            self._table.compact()

    def _rows(self, records: DataFrame) -> DataFrame:
        rows = in_few_files(columns_to_land(records, self._options.json_schema))
        return rows.drop("date") if self.target.format is TableFormat.ICEBERG else rows

    def _check_topic(self) -> None:
        found = self._topic_id()
        if found != self._present.id:
            raise LandingRefused(_made_again(self.topic, self.target.name, self._present.id, found))


def check_belongs(table: str, landed: LandedOffsets, present: TopicOffsets) -> None:
    """Check that a table continues with this topic.

    Raises:
        LandingRefused: the table is of another topic, or records were deleted before they had landed.
    """
    if landed.topic != present.topic:
        raise LandingRefused(
            f"{table} has the records of topic {landed.topic!r}, not of {present.topic!r}; land into another table"
        )
    if landed.topic_id != present.id:
        raise LandingRefused(_made_again(present.topic, table, landed.topic_id, present.id))
    for number, end in present.ends.items():
        start, low = landed.offsets.get(number, 0), present.lows[number]
        if start > end:
            raise LandingRefused(
                f"{table} has partition {number} up to before offset {start}, and the topic ends at {end}: the topic "
                "has lost records, such as one that was restored from a backup; land it into another table"
            )
        if start < low:
            raise LandingRefused(
                f"{table} lacks offsets {start} to {low - 1} of partition {number}, and the topic has deleted them; to "
                "land the rest, choose another table, and a longer retention"
            )


def _made_again(topic: str, table: str, known: str, found: str) -> str:
    return (
        f"topic {topic!r} was deleted and created again since it was landed in {table}: its UUID was {known} and is "
        f"{found}, so its offsets are of other records; land it into another table"
    )
