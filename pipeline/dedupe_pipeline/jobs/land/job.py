"""Run the job `land`: the output topic as Parquet files by date.

The command `dedupe-pipeline land` and the examples call it. Invariant: each record is there exactly once for any
reader, at every moment. (Spark's own file sink is exactly once only for readers that know its `_spark_metadata`.) It
holds wherever the process is killed:

1. before Spark has logged the batch's offsets: nothing was changed;
2. after that, while the batch is staged: no reader and no later process uses the staging directory. The batch is
   repeated with the logged offsets, and the committed records of an offset range never change;
3. between the renames of its dates: the repeated batch has the same number and the same records, skips the existing
   dates and moves the others;
4. after the last rename, before Spark has logged the commit: the batch is repeated and moves nothing;
5. after that: the next batch begins.

A lock excludes a second process. A JVM that outlives its killed Python process for a moment can stage but not publish,
because only Python publishes. A lost, foreign or older checkpoint is refused, and a topic that was created again. A
batch is published only if this process sees as many rows in the staged files as the executors have counted. The job
needs a POSIX file system that all machines share, because an object store has no atomic rename.
"""

import shutil
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from dedupe_pipeline.jobs.land.output_log import (
    BatchRecord,
    admit_batch,
    check_output,
    write_marker,
)
from dedupe_pipeline.jobs.land.parquet_sink import (
    check_same_file_system,
    lock_checkpoint,
    publish,
)
from dedupe_pipeline.jobs.streaming import (
    Left,
    OnWritten,
    committed_ends,
    current_topic_id,
    ignore_written,
    left_before,
    run_batches,
)
from dedupe_pipeline.jobs.written_files import check_written, local_output
from dedupe_pipeline.runtime.hadoop_paths import spark_path
from dedupe_pipeline.runtime.portable import refuse_remote
from dedupe_pipeline.source import read_clean_stream


@dataclass(frozen=True, kw_only=True)
class LandResult:
    """The batches and records of one run.

    A batch that is repeated after a crash counts in the run that finished it. `corrupt` of the records have a value
    that is not of the schema, if one was given. `left` is what a stopped run has not
    landed of the records that were there at its start.
    """

    batches: int
    records: int
    corrupt: int = 0
    left: Left = field(default_factory=dict)


def land(
    spark: SparkSession,
    stream: DedupeStream,
    output: Path,
    *,
    checkpoint: Path | None = None,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    spark_kafka_options: Mapping[str, str] | None = None,
    every: timedelta | None = None,
    max_offsets_per_trigger: int = 500_000,
    json_schema: str | None = None,
    patience: timedelta = timedelta(minutes=2),
    stop: threading.Event | None = None,
    on_written: OnWritten = ignore_written,
) -> LandResult:
    """Land the output topic's present records; with `every`, run until `stop` is set.

    Columns are those of `read_clean`. `json_schema` (Spark DDL: "id STRING, n BIGINT") adds the column `json` with the
    parsed value, and `_corrupt` with the text of a value that is not of this schema. `checkpoint` defaults to
    `<output>.checkpoint` and must be on the output's file system. `patience` limits the wait for an unreachable broker.

    Raises:
        LandingRefused: output, checkpoint and topic do not belong together, or are in use.
        NotShared: the executors write to other disks than the driver.
        PipelineError: Spark failed; the next run continues where this run stopped.
    """
    refuse_remote(spark, "land")
    output = local_output(output)
    work = local_output(checkpoint or output.with_name(f"{output.name}.checkpoint"))
    topic = stream.spec.output.topic
    with lock_checkpoint(work):
        output.mkdir(parents=True, exist_ok=True)
        check_same_file_system(output, work)
        cluster = KafkaConnection.of(stream, bootstrap_servers, kafka_options).cluster()
        present = cluster.offsets(topic)
        stop = stop or threading.Event()
        check_output(output, work / "spark", topic, present.id)
        landing = _Landing(
            output=output,
            work=work,
            topic=present,
            json_schema=json_schema,
            topic_id=partial(current_topic_id, cluster, topic, patience=patience, stop=stop),
        )
        landing.on_written = on_written
        records = read_clean_stream(
            spark,
            stream,
            bootstrap_servers=bootstrap_servers,
            kafka_options=kafka_options,
            spark_kafka_options=spark_kafka_options,
            max_offsets_per_trigger=max_offsets_per_trigger,
        )
        doing, work = f"landing {topic!r}", landing.checkpoint
        run_batches(records, landing.land_batch, doing, checkpoint=work, every=every, stop=stop)
        left = left_before(present.ends, present.lows | committed_ends(landing.checkpoint))
        return LandResult(
            batches=landing.batches, records=landing.records, corrupt=landing.corrupt, left=left
        )


class _Landing:
    """The state that the batches of one run share."""

    def __init__(
        self,
        *,
        output: Path,
        work: Path,
        topic: TopicOffsets,
        topic_id: Callable[[], str],
        json_schema: str | None,
    ) -> None:
        self.on_written: OnWritten = ignore_written
        self.checkpoint = work / "spark"
        self.topic = topic.topic
        self._known_id = topic.id
        self._topic_id = topic_id
        self.batches = 0
        self.records = 0
        self.corrupt = 0
        self._output = output
        self._json_schema = json_schema
        # A new name for each run: the late writes of a killed process go to an unused directory.
        shutil.rmtree(work / "staging", ignore_errors=True)
        self._staging = work / "staging" / uuid.uuid4().hex

    def land_batch(self, records: DataFrame, batch: int) -> None:
        """Land one batch; Spark repeats the call with the same offsets until it succeeds."""
        counted = Observation()
        rows = in_few_files(columns_to_land(records, self._json_schema))
        corrupt = F.count(CORRUPT) if CORRUPT in rows.columns else F.lit(0)
        sums = (F.count(F.lit(1)).alias("records"), corrupt.alias("corrupt"))
        # Above the shuffle: below it, adaptive execution removes the count of a batch without records.
        stage(rows.observe(counted, *sums), self._staging)
        check_written(self._staging, counted.get["records"], self._output)
        self._check_topic()  # after the read: the records are of the same topic
        planned = BatchRecord.planned(self.checkpoint, batch, self._known_id)
        write_marker(self._output, self.checkpoint, self.topic, self._known_id)
        admit_batch(self._output, self.checkpoint, self._staging, batch, planned)
        publish(self._staging, self._output, batch)
        self.batches += 1
        self.records += counted.get["records"]
        self.corrupt += counted.get["corrupt"]
        self.on_written(batch, counted.get["records"])

    def _check_topic(self) -> None:
        found = self._topic_id()
        if found != self._known_id:
            raise LandingRefused(
                f"topic {self.topic!r} was deleted and created again while it was landed in {self._output}: its UUID "
                f"was {self._known_id} and is {found}; land the topic again with another --output and --checkpoint"
            )


def stage(rows: DataFrame, staging: Path) -> None:
    """Write a batch to the staging directory, with one directory per date."""
    rows.write.mode("overwrite").partitionBy("date").parquet(spark_path(staging))
