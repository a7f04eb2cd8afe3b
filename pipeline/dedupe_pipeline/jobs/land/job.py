"""Job `land`: the clean topic as Parquet files by date, each record exactly once for any reader.

Spark's own file sink is exactly once only for readers that know its `_spark_metadata`; here the
directory itself is right at every moment. Why it holds wherever the process is killed:

1. before Spark has logged the batch's offsets: nothing has happened;
2. after that, while the batch is staged: nobody reads the staging directory, and no later process
   uses it again. The batch is repeated with the logged offsets, and committed records of an offset
   range never change;
3. between the renames of its dates: the repeated batch has the same number and the same records,
   leaves the dates that are there, and moves the rest in;
4. after the last rename, before Spark has logged the commit: repeated too, and moves nothing;
5. after that: the next batch begins.

Two processes at once are kept apart by a lock. A JVM that outlives its killed Python process for a
moment can stage but not publish, which only Python does. A lost or foreign checkpoint is refused.
Needs a POSIX file system: an object store has no atomic rename.
"""

import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.land.parquet_sink import (
    check_belongs,
    check_same_file_system,
    mark,
    only_one,
    publish,
)
from dedupe_pipeline.source import read_clean_stream
from dedupe_pipeline.streaming import first_line, run_until, triggered

_DAY_MILLIS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class LandResult:
    """What one run has landed; a batch repeated after a crash counts in the run that finished it."""

    batches: int
    records: int


def land(
    spark: SparkSession,
    stream: DedupeStream,
    output: Path,
    *,
    checkpoint: Path | None = None,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    every: timedelta | None = None,
    max_offsets_per_trigger: int = 500_000,
    json_schema: str | None = None,
    stop: threading.Event | None = None,
) -> LandResult:
    """Land what the clean topic holds now and return; with `every`, go on until `stop` is set.

    Columns as in `read_clean`, and with `json_schema` (Spark DDL: "id STRING, n BIGINT") one more,
    `json`, the value parsed: null where it cannot be. `checkpoint` defaults to `<output>.checkpoint`
    and must be on the output's file system.

    Raises:
        LandingRefused: output and checkpoint do not belong together, or are in use.
        PipelineError: Spark failed; running it again goes on where it stopped.
    """
    work = checkpoint or output.with_name(f"{output.name}.checkpoint")
    topic = stream.spec.output.topic
    with only_one(work):
        output.mkdir(parents=True, exist_ok=True)
        check_same_file_system(output, work)
        check_belongs(output, work / "spark", topic)
        landing = _Landing(output=output, work=work, topic=topic, json_schema=json_schema)
        records = read_clean_stream(
            spark,
            stream,
            bootstrap_servers=bootstrap_servers,
            kafka_options=kafka_options,
            max_offsets_per_trigger=max_offsets_per_trigger,
        )
        writer = (
            records.writeStream.queryName(f"land-{topic}")
            .option("checkpointLocation", str(landing.checkpoint))
            .foreachBatch(landing.land_batch)
        )
        with _explained(landing):
            run_until(triggered(writer, every), stop or threading.Event())
        return LandResult(batches=landing.batches, records=landing.records)


class _Landing:
    """What the batches of one run share."""

    def __init__(self, *, output: Path, work: Path, topic: str, json_schema: str | None) -> None:
        self.checkpoint = work / "spark"
        self.topic = topic
        self.batches = 0
        self.records = 0
        self.failure: Exception | None = None
        self._output = output
        self._json_schema = json_schema
        # A new name each time: what a killed process still writes ends up where nobody looks.
        shutil.rmtree(work / "staging", ignore_errors=True)
        self._staging = work / "staging" / uuid.uuid4().hex

    def land_batch(self, records: DataFrame, batch: int) -> None:
        """Stage, publish; Spark calls it with the same offsets until it has returned once."""
        try:
            self._land_batch(records, batch)
        except Exception as error:  # noqa: BLE001 (`_explained` tells it)
            # Spark takes the text of what is raised apart with a pattern that overflows the stack of
            # its thread on a long one, such as its own; so it gets a short one.
            self.failure = error
            raise PipelineError(f"batch {batch} failed") from None

    def _land_batch(self, records: DataFrame, batch: int) -> None:
        mark(self._output, self.checkpoint, self.topic)
        counted = Observation()
        rows = for_parquet(records, self._json_schema)
        stage(rows.observe(counted, F.count(F.lit(1)).alias("records")), self._staging)
        publish(self._staging, self._output, batch)
        self.batches += 1
        self.records += counted.get["records"]


def for_parquet(records: DataFrame, json_schema: str | None = None) -> DataFrame:
    """The columns that are landed: those of the source, `date` in UTC, and the parsed value if wanted."""
    day = F.floor(F.unix_millis("timestamp") / F.lit(_DAY_MILLIS)).cast("int")
    dated = records.withColumn("date", F.date_from_unix_date(day))
    if json_schema is None:
        return dated
    return dated.withColumn("json", F.from_json(F.col("value").cast("string"), json_schema))


def stage(rows: DataFrame, staging: Path) -> None:
    """Write one batch outside the output, a directory for each date."""
    rows.write.mode("overwrite").partitionBy("date").parquet(str(staging))


@contextmanager
def _explained(landing: _Landing) -> Iterator[None]:
    try:
        yield
    except StreamingQueryException as error:
        cause = landing.failure or error
        raise PipelineError(
            f"landing {landing.topic!r} stopped: {first_line(cause)}; nothing is lost: mend the "
            "cause and run it again"
        ) from cause
    except (PySparkException, Py4JError) as error:
        raise PipelineError(
            f"landing {landing.topic!r} could not start: {first_line(error)}"
        ) from error
