"""Job `aggregate`: windowed counts and sums of the clean topic in PostgreSQL, each record once.

The database is the only state: the rows, and beside them the offsets that they were counted from.
Spark's checkpoint lives for one run, in a temporary directory, and each run begins at the offsets
that the database has. Why a record is counted once wherever the process is killed:

1. before the batch's transaction: nothing has happened, and the next run begins at the same offset;
2. inside of it: PostgreSQL takes back what was done, rows and offsets alike;
3. after its commit: both are there, and the next run begins after them, whatever Spark remembers;
4. while it commits, so that nobody was told: as 2 or 3. Whoever goes on, this process with a new
   connection or the next one, looks at the offsets first.

A batch that comes back in whole or in part adds only what is missing, see `increments`; two
processes at once are kept apart by a lock, and by the offsets if the lock is lost.
"""

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import DatabaseFailed, JobRefused, KafkaUnreachable, PipelineError
from dedupe_pipeline.jobs.aggregate.columns import Shape, shape_of
from dedupe_pipeline.jobs.aggregate.database import Database, Moved
from dedupe_pipeline.jobs.aggregate.increments import Fate, Progress, increments
from dedupe_pipeline.jobs.aggregate.job_file import AggregateJob
from dedupe_pipeline.jobs.aggregate.metadata_table import Source
from dedupe_pipeline.jobs.aggregate.postgres import Postgres
from dedupe_pipeline.jobs.aggregate.sql import Layout
from dedupe_pipeline.offsets import Offsets
from dedupe_pipeline.source import read_clean_stream
from dedupe_pipeline.streaming import first_line, run_until, triggered

_RETRY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class AggregateResult:
    """What one run has added. `counted` and `late` are additions to windows, the others records."""

    batches: int = 0
    records: int = 0
    counted: int = 0
    late: int = 0
    filtered: int = 0
    unusable: int = 0


def aggregate(
    spark: SparkSession,
    stream: DedupeStream,
    job: AggregateJob,
    postgres: Postgres,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    every: timedelta | None = None,
    max_offsets_per_trigger: int = 500_000,
    skip_deleted: bool = False,
    patience: timedelta = timedelta(minutes=2),
    lock_patience: timedelta = timedelta(seconds=30),
    stop: threading.Event | None = None,
) -> AggregateResult:
    """Add what the clean topic holds now and return; with `every`, go on until `stop` is set.

    A batch has at most `max_offsets_per_trigger` records, and what it adds passes through this
    process. `patience` is how long a database or brokers that went away are waited for,
    `lock_patience` another job on the table.

    Raises:
        JobRefused: the job file doesn't fit the topic or the table, or another job adds to it, or
            the topic was deleted and created again.
        RecordsExpired: the topic has lost records that were not counted yet, unless `skip_deleted`.
        DatabaseFailed: PostgreSQL can't be reached for longer than `patience`, or refuses.
        PipelineError: Spark failed; running it again goes on where it stopped.
    """
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options)
    topic = stream.spec.output.topic
    stop = stop or threading.Event()
    shape = shape_of(spark, job)
    offsets = Offsets(connection)
    source = Source(
        topic_id=offsets.topic_id(topic),
        span=offsets.final_range(topic),
        definition=job.definition(),
    )
    database = Database(
        postgres, Layout.of(job, shape), patience=patience, lock_patience=lock_patience, stop=stop
    )
    with database, tempfile.TemporaryDirectory(prefix="dedupe-aggregate-") as checkpoint:
        progress = database.register(source, skip_deleted=skip_deleted)
        check_topic = partial(
            check_same_topic, offsets, topic, source.topic_id, patience=patience, stop=stop
        )
        adding = Adding(
            job, shape, database, progress, checkpoint=Path(checkpoint), check_topic=check_topic
        )
        starts = {str(number): one.next_offset for number, one in sorted(progress.items())}
        records = read_clean_stream(
            spark,
            stream,
            bootstrap_servers=bootstrap_servers,
            kafka_options=kafka_options,
            starting_offsets=json.dumps({topic: starts}),
            max_offsets_per_trigger=max_offsets_per_trigger,
        )
        writer = (
            records.writeStream.queryName(f"aggregate-{job.table}")
            .option("checkpointLocation", Path(checkpoint).as_uri())
            .foreachBatch(adding.add_batch)
        )
        with _explained(job.table, adding):
            run_until(triggered(writer, every), stop)
        return adding.result()


class Adding:
    """What the batches of one run share."""

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
        self.failure: Exception | None = None
        self._job = job
        self._shape = shape
        self._database = database
        self._progress = dict(progress)
        self._checkpoint = checkpoint
        self._check_topic = check_topic
        self._batches = 0
        self._sums = dict.fromkeys(("records", *Fate), 0)

    def add_batch(self, records: DataFrame, batch: int) -> None:
        """Add one batch; Spark calls it with the same offsets until it has returned once."""
        try:
            self.add(records, planned_ends(self._checkpoint, batch))
        except Exception as error:  # noqa: BLE001 (`_explained` tells it)
            # Spark takes the text of what is raised apart with a pattern that overflows the stack of
            # its thread on a long one, such as its own; so it gets a short one.
            self.failure = error
            raise PipelineError(f"batch {batch} failed") from None

    def add(self, records: DataFrame, ends: Mapping[int, int]) -> None:
        """Add of `records`, which are all to before `ends`, those that are not added yet."""
        while True:
            wanted = increments(records, self._job, self._shape.schema, self._progress)
            found = wanted.toArrow()
            self._check_topic()  # now that they are read: what they were read from
            try:
                self._progress = self._database.add(found, ends, self._progress)
            except Moved as moved:
                check_goes_on(self._job.table, self._progress, moved.progress)
                self._progress = moved.progress
            else:
                self._count(found)
                return

    def result(self) -> AggregateResult:
        """What has been added so far."""
        return AggregateResult(batches=self._batches, **self._sums)

    def _count(self, found: pa.Table) -> None:
        self._batches += found.num_rows > 0  # a run begins with an empty one if nothing is new
        for fate in Fate:
            rows = found.filter(pc.equal(found["_fate"], fate.value))
            records = pc.sum(rows["_records"]).as_py() or 0
            in_windows = fate in {Fate.COUNTED, Fate.LATE}
            self._sums["records"] += records
            self._sums[fate] += (pc.sum(rows["_additions"]).as_py() or 0) if in_windows else records


def check_same_topic(
    offsets: Offsets, topic: str, topic_id: str, *, patience: timedelta, stop: threading.Event
) -> None:
    """Check that a topic is still the one that is counted, asking for up to `patience`.

    Raises:
        JobRefused: it was deleted and created again, and its offsets are of other records.
        KafkaUnreachable: nobody knows.
    """
    deadline = time.monotonic() + patience.total_seconds()
    while True:
        try:
            found = offsets.topic_id(topic)
        except KafkaUnreachable:
            if time.monotonic() > deadline or stop.wait(_RETRY_SECONDS):
                raise
        else:
            break
    if found != topic_id:
        raise JobRefused(
            f"topic {topic!r} was deleted and created again while it was counted: name another table in the "
            "job file, or drop this one to begin anew"
        )


def check_goes_on(table: str, known: Mapping[int, Progress], found: Mapping[int, Progress]) -> None:
    """More may be counted than is known, after a commit of which the answer was lost; never less.

    Raises:
        DatabaseFailed: something that was counted no longer is.
    """
    for number, one in known.items():
        at = found[number].next_offset if number in found else 0
        if at < one.next_offset:
            raise DatabaseFailed(
                f"{table}: the database went back to an earlier state: partition {number} was counted to "
                f"before offset {one.next_offset}, and is to before {at}; run the job again, it begins "
                "there"
            )


def planned_ends(checkpoint: Path, batch: int) -> dict[int, int]:
    """One past the last offset of a batch, of each partition, as Spark has logged it before the batch.

    The last of the records won't do: markers of transactions may follow, and once the topic has
    lost those it would look as if records that were never counted had gone.
    """
    *_, offsets = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    [ends] = json.loads(offsets).values()
    return {int(number): end for number, end in ends.items()}


@contextmanager
def _explained(table: str, adding: Adding) -> Iterator[None]:
    try:
        yield
    except StreamingQueryException as error:
        cause = adding.failure or error
        if isinstance(cause, PipelineError):
            raise cause from error
        raise PipelineError(
            f"counting for {table} stopped: {first_line(cause)}; nothing is lost: mend the cause and "
            "run it again"
        ) from cause
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"counting for {table} could not start: {first_line(error)}") from error
