"""Cost of planning a read of Spark's data source over many small chunks, and what it saves.

A topic is written as a worker writes it under little load: 10,000 chunks (transactions), each with a filter, and with
MESSAGES / 10,000 records of 512 bytes. One chunk in ten has one of the asked values, one in 1,000 another. The driver
plans: it reads all filters, and divides the ranges that may match among tasks. Executors read these only. Each read is
compared with one of everything that Spark filters afterwards.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Final

from benchmarks.cases.filters import HEADER, VALUES, chunk_writer, create_filtered
from benchmarks.cases.filters_spark import (
    SparkRead,
    has_value,
    reads_in_turns,
    spark_of_benchmark,
)
from benchmarks.harness.model import Model
from benchmarks.harness.testbed import Testbed
from dedupe_kafka.side_topics import filters_topic
from dedupe_pipeline.datasource.batch import BatchReader
from dedupe_pipeline.datasource.input_partition import RangeInputPartition
from dedupe_pipeline.datasource.options import read_options

CHUNKS: Final = 10_000
RARE_EVERY: Final = 1_000

_COMMON: Final = b"value-3"
_RARE: Final = b"rare"
_FILTERED_BY_SPARK: Final = "everything, filtered by Spark"


class Planned(Model):
    """The plan of a read: the chunks with the value, its ranges, and the seconds of each time it was made."""

    what: str
    chunks: int
    ranges: int
    seconds: list[float]


class ManyChunks(Model):
    """Everything measured."""

    messages: int
    chunks: int
    plans: list[Planned]
    spark: list[SparkRead]

    def seconds(self, what: str) -> float:
        """Return the median of a read of Spark's, its plan included."""
        return median(run.seconds for run in self.spark if run.what == what)

    def cpu_seconds(self, what: str) -> float:
        """Return the median of a read of Spark's."""
        return median(run.cpu_seconds for run in self.spark if run.what == what)

    def records(self, what: str) -> int:
        """Return the records of a read."""
        return next(run.records for run in self.spark if run.what == what)

    @property
    def everything(self) -> str:
        """The read that skips nothing."""
        return _FILTERED_BY_SPARK

    @property
    def plan_seconds(self) -> float:
        """The median of the slowest plan."""
        return max(median(plan.seconds) for plan in self.plans)

    @property
    def speedup(self) -> float:
        """The speed of the read of the rarest value, compared with that of everything."""
        return self.seconds(self.everything) / self.seconds(self.plans[-1].what)


def measure_chunks(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> ManyChunks:
    """Measure all of it. Raises BenchmarkFailed."""
    servers, of_each = testbed.bootstrap_servers, max(1, messages // CHUNKS)
    report(f"writing {CHUNKS * of_each:,} records in {CHUNKS:,} chunks")
    topic = create_filtered(testbed)
    with chunk_writer(servers, topic) as write:
        for number in range(CHUNKS):
            write(number * of_each, of_each, _value(number))
    plans = []
    given = {"bootstrapServers": servers, "topic": topic}
    wanted = {_name(value): value for value in (_COMMON, _RARE)}
    for what, value in wanted.items():
        report(f"planning: {what}")
        plans.append(_planned(what, value, {**given, "filter": value.decode()}, rounds))
    with spark_of_benchmark() as spark:
        ours = spark.read.format("dedupestream").options(**given)
        frames = {_FILTERED_BY_SPARK: ours.load().where(has_value(HEADER, _RARE))}
        for what, value in wanted.items():
            frames[what] = ours.option("filter", value.decode()).load()
        records = {plan.what: plan.chunks * of_each for plan in plans}
        records[_FILTERED_BY_SPARK] = records[_name(_RARE)]
        runs = reads_in_turns(frames, records, rounds, report)
    testbed.delete_topics(topic, filters_topic(topic))
    return ManyChunks(messages=CHUNKS * of_each, chunks=CHUNKS, plans=plans, spark=runs)


def _value(number: int) -> bytes:
    if number % RARE_EVERY == RARE_EVERY // 2:
        return _RARE
    return b"value-%d" % (number % VALUES)


def _name(value: bytes) -> str:
    return f"1 chunk in {RARE_EVERY if value == _RARE else VALUES:,}"


def _planned(what: str, value: bytes, options: dict[str, str], rounds: int) -> Planned:
    reader = BatchReader(read_options(options))
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        parts = reader.partitions()
        seconds.append(time.perf_counter() - began)
    ranges = sum(len(part.ranges) for part in parts if isinstance(part, RangeInputPartition))
    chunks = sum(_value(number) == value for number in range(CHUNKS))
    return Planned(what=what, chunks=chunks, ranges=ranges, seconds=seconds)
