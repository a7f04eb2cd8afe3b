"""The cost of job `aggregate`, in batches of several sizes.

Real flights are counted by carrier and hour in a real PostgreSQL.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil
import psycopg
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks.cases.filters_spark import cpu_seconds_by_process
from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.stream import stream_of
from benchmarks.harness.testbed import Testbed, client
from dedupe_local.servers.postgres import EmbeddedPostgres
from dedupe_pipeline.jobs.aggregate import AggregateJob, Postgres, aggregate, load_job
from dedupe_pipeline.session import spark_session
from examples.flights.data import ROWS, messages

BATCHES: Final = (20_000, 100_000, 500_000)
"""The largest is all of them at once."""

_JOB: Final = Path(__file__).parents[2] / "examples" / "flights" / "aggregate.yaml"
_SEED: Final = 2013
_CORES: Final = 2
_FLUSH_SECONDS: Final = 120.0


class AggregateRun(Model):
    """A run from an empty database.

    CPU seconds are those of Spark's processes, and of PostgreSQL's.
    """

    batch: int
    rows: int
    seconds: float
    spark_cpu_seconds: float
    postgres_cpu_seconds: float


class Aggregated(Model):
    """Everything measured."""

    records: int
    runs: list[AggregateRun]

    @property
    def by_batch(self) -> dict[int, list[AggregateRun]]:
        """The runs of each size of batches, from small to large."""
        sizes = sorted({run.batch for run in self.runs})
        return {size: [run for run in self.runs if run.batch == size] for size in sizes}


def measure_aggregate(
    testbed: Testbed, *, records: int, rounds: int, report: Callable[[str], None]
) -> Aggregated:
    """Each size once to warm up, then in turns. Raises BenchmarkFailed."""
    records = min(records, ROWS)
    report(f"sending {records:,} flights")
    topic = testbed.create_topic("flights", partitions=_CORES)
    _send(testbed.bootstrap_servers, topic, records)
    bench = _Bench(testbed.bootstrap_servers, topic, records)
    with ExitStack() as stack:
        # Not below `scratch`: another user, whom the server may run as, can't go there.
        directory = stack.enter_context(TemporaryDirectory(prefix="dedupe-bench-postgres-"))
        server = stack.enter_context(EmbeddedPostgres(Path(directory)))
        spark = spark_session("aggregate", master=f"local[{_CORES}]")
        stack.callback(spark.stop)
        runs = []
        for turn in range(rounds + 1):
            for batch in BATCHES:
                report(f"batches of {batch:,}, round {turn} of {rounds}")
                run = bench.run(spark, server, batch)
                if turn:
                    runs.append(run)
    testbed.delete_topics(topic)
    return Aggregated(records=records, runs=runs)


class _Bench:
    """Runs of the example's job over one topic, each with its own database."""

    def __init__(self, servers: str, topic: str, records: int) -> None:
        self._stream = stream_of(servers, f"{topic}-raw", topic)
        self._job: AggregateJob = load_job(_JOB)
        self._records = records
        self._numbers = count()

    def run(self, spark: SparkSession, server: EmbeddedPostgres, batch: int) -> AggregateRun:
        name = f"run_{next(self._numbers)}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        url = server.url_of(name)
        before, began = _cpu_seconds(), time.perf_counter()
        added = aggregate(
            spark, self._stream, self._job, Postgres.of(url), max_offsets_per_trigger=batch
        )
        seconds = time.perf_counter() - began
        after = _cpu_seconds()
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT count(*), sum(flights) FROM flights_hourly")
            [(rows, flights)] = found.fetchall()
        if not added.counted == flights == self._records:
            raise BenchmarkFailed(f"{flights} flights were counted, and there are {self._records}")
        return AggregateRun(
            batch=batch,
            rows=rows,
            seconds=seconds,
            spark_cpu_seconds=after[0] - before[0],
            postgres_cpu_seconds=after[1] - before[1],
        )


def _cpu_seconds() -> tuple[float, float]:
    """Return the CPU seconds so far of Spark, and of PostgreSQL.

    Spark's include this process; PostgreSQL's include processes that have ended.
    """
    servers = [one for one in psutil.Process().children() if one.name() == "postgres"]
    below = {each.pid for one in servers for each in one.children(recursive=True)}
    ours = cpu_seconds_by_process()
    spark = sum(ours[pid] for pid in ours.keys() - below - {one.pid for one in servers})
    ended = sum(sum(one.cpu_times()[2:4]) for one in servers)
    return spark, sum(ours.get(pid, 0.0) for pid in below) + ended


def _send(servers: str, topic: str, records: int) -> None:
    producer = Producer({**client(servers), "compression.type": "lz4", "linger.ms": 50})
    for message in messages(records, _SEED):
        while True:
            try:
                producer.produce(topic, message.value, message.key)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_FLUSH_SECONDS):
        raise BenchmarkFailed(f"the broker took no record for {_FLUSH_SECONDS:.0f} s")
