"""Job `land`, compared with Spark's own way from a Kafka topic to Parquet files.

A backlog of MESSAGES records of three days is landed into an empty directory or table. Spark's own file sink has the
same columns, the same partitions by date and the same batches; it writes a file for each task and date.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import Producer
from pyarrow import parquet
from pyspark.sql import SparkSession

from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.spark_jvm import jvm_of
from benchmarks.harness.stream import stream_of
from benchmarks.harness.testbed import Testbed, client
from benchmarks.harness.traffic import HEADERS, key_of, value_of
from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.jobs.land.table_job import land_table
from dedupe_pipeline.runtime.jars import delta, iceberg, spark_kafka
from dedupe_pipeline.session import spark_session
from dedupe_pipeline.table_target import TableFormat, TableTarget

SPARKS_OWN: Final = "Spark's file sink"
PARQUET: Final = "land, Parquet"
BATCH: Final = 500_000
DAYS: Final = 3

_CORES: Final = 2
_PARTITIONS: Final = 2
_DRIVER_MEMORY: Final = "2g"
_CATALOG: Final = "lake"
_START_MS: Final = 1_760_054_400_000  # the begin of a day in UTC
_DAY_MS: Final = 86_400_000
_FLUSH_SECONDS: Final = 120.0
_REPORT_EVERY: Final = 100_000


class Landing(Model):
    """A run into an empty place, with the CPU seconds of Spark's JVM and the sizes of the files in bytes."""

    what: str
    seconds: float
    cpu_seconds: float
    files: list[int]


class Landings(Model):
    """Everything measured. `files` are those of the last run."""

    messages: int
    value_bytes: int
    batch: int
    days: int
    runs: list[Landing]

    @property
    def kinds(self) -> list[str]:
        """The compared ways, Spark's own first."""
        return list(dict.fromkeys(run.what for run in self.runs))

    def seconds(self, what: str) -> float:
        """Return the median of a kind."""
        return median(run.seconds for run in self.runs if run.what == what)

    def cpu_seconds(self, what: str) -> float:
        """Return the median of a kind."""
        return median(run.cpu_seconds for run in self.runs if run.what == what)

    def files(self, what: str) -> list[int]:
        """Return the sizes of the files of a kind, in its last run."""
        return [run for run in self.runs if run.what == what][-1].files

    @property
    def relative_cpu(self) -> float:
        """CPU time of `land` to Parquet, as a multiple of that of Spark's own sink."""
        return self.cpu_seconds(PARQUET) / self.cpu_seconds(SPARKS_OWN)


def measure_landing(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> Landings:
    """Each kind once to warm up, then in turns. Raises BenchmarkFailed."""
    topic = testbed.create_topic("clean", partitions=_PARTITIONS)
    value_bytes = _fill(testbed.bootstrap_servers, topic, messages, report)
    stream = stream_of(testbed.bootstrap_servers, f"{topic}-raw", topic)
    lake = testbed.scratch / "lake"
    properties = {
        "spark.driver.memory": _DRIVER_MEMORY,
        # The table of the round before is deleted behind the catalog's back.
        f"spark.sql.catalog.{_CATALOG}.cache-enabled": "false",
    }
    for each in TableFormat:
        properties = _target(each, lake).properties(properties)
    spark = spark_session(
        "landing",
        master=f"local[{_CORES}]",
        properties=properties,
        jars=lambda: [*spark_kafka(), *iceberg(), *delta()],
    )
    runs = []
    try:
        for turn in range(rounds + 1):
            for what, run in _kinds(spark, stream, lake).items():
                report(f"{what}, round {turn} of {rounds}")
                one = _measured(spark, what, run, lake)
                if (found := _rows(lake)) != messages:
                    raise BenchmarkFailed(f"{what}: {found} records landed, and not {messages}")
                shutil.rmtree(lake)
                if turn:
                    runs.append(one)
    finally:
        spark.stop()
    return Landings(messages=messages, value_bytes=value_bytes, batch=BATCH, days=DAYS, runs=runs)


def _kinds(
    spark: SparkSession, stream: DedupeStream, lake: Path
) -> Mapping[str, Callable[[], object]]:
    tables = {
        f"land, {name}": _target(table_format, lake)
        for name, table_format in (("Iceberg", TableFormat.ICEBERG), ("Delta", TableFormat.DELTA))
    }

    def into(target: TableTarget) -> Callable[[], object]:
        return lambda: land_table(spark, stream, target, max_offsets_per_trigger=BATCH)

    return {
        SPARKS_OWN: lambda: _sparks_own(spark, stream, lake),
        PARQUET: lambda: land(spark, stream, lake / "orders", max_offsets_per_trigger=BATCH),
        **{what: into(target) for what, target in tables.items()},
    }


def _target(table_format: TableFormat, lake: Path) -> TableTarget:
    if table_format is TableFormat.DELTA:
        return TableTarget(format=table_format, name=str(lake / "delta/orders"))
    name = f"{_CATALOG}.shop.orders"
    return TableTarget(format=table_format, name=name, warehouse=str(lake / "iceberg"))


def _sparks_own(spark: SparkSession, stream: DedupeStream, lake: Path) -> None:
    """Land as Spark's documentation shows it."""
    spec = stream.spec
    read = spark.readStream.format("kafka").options(
        **{
            "kafka.bootstrap.servers": spec.kafka.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "subscribe": spec.output.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(BATCH),
            "includeHeaders": "true",
        }
    )
    rows = read.load().selectExpr(
        "partition", "offset", "timestamp", "key", "value", "headers", "date(timestamp) AS date"
    )
    query = (
        rows.writeStream.format("parquet")
        .partitionBy("date")
        .option("checkpointLocation", str(lake / "checkpoint"))
        .option("path", str(lake / "orders"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _measured(spark: SparkSession, what: str, run: Callable[[], object], lake: Path) -> Landing:
    jvm = jvm_of(spark)
    before, began = sum(jvm.cpu_times()[:2]), time.perf_counter()
    run()
    seconds, cpu_seconds = time.perf_counter() - began, sum(jvm.cpu_times()[:2]) - before
    files = sorted(file.stat().st_size for file in _data_files(lake))
    return Landing(what=what, seconds=seconds, cpu_seconds=cpu_seconds, files=files)


def _data_files(lake: Path) -> list[Path]:
    # Delta's checkpoints are Parquet files too.
    return [file for file in lake.rglob("*.parquet") if "_delta_log" not in file.parts]


def _rows(lake: Path) -> int:
    return sum(parquet.read_metadata(file).num_rows for file in _data_files(lake))


def _fill(servers: str, topic: str, messages: int, report: Callable[[str], None]) -> int:
    """Fill the topic in the order of the records' times, and return the bytes of a value."""
    producer = Producer({**client(servers), "compression.type": "lz4", "linger.ms": 50})
    for number in range(messages):
        if number % _REPORT_EVERY == 0:
            report(f"{number:,} of {messages:,} records sent")
        key = key_of(number)
        record = (topic, value := value_of(number, key), key, number % _PARTITIONS)
        timestamp = _START_MS + number * DAYS * _DAY_MS // messages
        while True:
            try:
                producer.produce(*record, timestamp=timestamp, headers=HEADERS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_FLUSH_SECONDS):
        raise BenchmarkFailed(f"the broker took no record for {_FLUSH_SECONDS:.0f} s")
    return len(value)
