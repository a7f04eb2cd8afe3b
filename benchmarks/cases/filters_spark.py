"""Reads of Spark in the benchmark of chunk filters, by two sources.

These are Spark's own Kafka source and the data source of this project.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import psutil
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed
from dedupe_pipeline.session import spark_session

_CORES: Final = 2

OURS: Final = "data source, everything"
THEIRS: Final = "Spark's Kafka source, everything"
OURS_FILTERED: Final = "data source, one value"
OURS_ALL_FILTERED: Final = "data source, everything, filtered by Spark"


class Wanted(NamedTuple):
    """A value and its header; the number of all records, and of those that have it."""

    header: str
    value: bytes
    all_records: int
    records: int


class SparkRead(Model):
    """A read of Spark's, with the CPU seconds of its JVM and its Python workers."""

    what: str
    records: int
    seconds: float
    cpu_seconds: float


def spark_reads(
    servers: str, topic: str, wanted: Wanted, rounds: int, report: Callable[[str], None]
) -> list[SparkRead]:
    """Each read once to warm up, then in turns."""
    with spark_of_benchmark() as spark:
        frames = _frames(spark, servers, topic, wanted)
        records = {
            what: wanted.all_records if what in {OURS, THEIRS} else wanted.records
            for what in frames
        }
        return reads_in_turns(frames, records, rounds, report)


@contextmanager
def spark_of_benchmark() -> Iterator[SparkSession]:
    """Provide a session, which ends."""
    spark = spark_session("filters", master=f"local[{_CORES}]")
    try:
        yield spark
    finally:
        spark.stop()


def reads_in_turns(
    frames: Mapping[str, DataFrame],
    records: Mapping[str, int],
    rounds: int,
    report: Callable[[str], None],
) -> list[SparkRead]:
    """Each read once to warm up, then in turns. Raises BenchmarkFailed for another number of records."""
    runs = []
    for turn in range(rounds + 1):
        for what, frame in frames.items():
            report(f"Spark: {what}")
            run = _spark_read(what, frame)
            if run.records != records[what]:
                raise BenchmarkFailed(
                    f"Spark, {what}: {run.records} records, and not {records[what]}"
                )
            if turn:
                runs.append(run)
    return runs


def _frames(spark: SparkSession, servers: str, topic: str, wanted: Wanted) -> dict[str, DataFrame]:
    ours = spark.read.format("dedupestream").options(bootstrapServers=servers, topic=topic)
    everything = ours.load()
    theirs = spark.read.format("kafka").options(
        **{
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "kafka.max.poll.records": "5000",
            "kafka.max.partition.fetch.bytes": str(8 << 20),
        }
    )
    columns = everything.columns
    chosen = has_value(wanted.header, wanted.value)
    return {
        THEIRS: theirs.load().select(*columns),
        OURS: everything,
        OURS_ALL_FILTERED: everything.where(chosen),
        OURS_FILTERED: ours.option("filter", wanted.value.decode()).load(),
    }


def has_value(header: str, value: bytes) -> str:
    """Return Spark's condition that a record has this header."""
    return (
        f"exists(headers, h -> h.key = '{header}' AND h.value = cast('{value.decode()}' as binary))"
    )


def _spark_read(what: str, frame: DataFrame) -> SparkRead:
    """Use every column of every row, so that none is left out, and count."""
    used = frame.selectExpr(
        "length(key) + length(value) + coalesce(size(headers), 0) + unix_millis(timestamp) + offset + partition AS used"
    )
    before, began = cpu_seconds_by_process(), time.perf_counter()
    records = used.selectExpr("count(*)", "sum(used)").collect()[0][0]
    seconds = time.perf_counter() - began
    # Of processes that still exist: those that have ended have planned an earlier read.
    used_by = {pid: after - before.get(pid, 0.0) for pid, after in cpu_seconds_by_process().items()}
    return SparkRead(what=what, records=records, seconds=seconds, cpu_seconds=sum(used_by.values()))


def cpu_seconds_by_process() -> dict[int, float]:
    """Return CPU seconds of this process and its descendants, by process id."""
    this = psutil.Process()
    seconds = {}
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            times = process.cpu_times()
            seconds[process.pid] = times.user + times.system
    return seconds
