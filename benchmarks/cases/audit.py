"""The cost of job `audit`: records a second, memory, and what Spark writes to disk.

Both topics are filled with messages that are a function of their number, as if a worker had processed them.
"""

import time
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import Final, NamedTuple

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.spark_jvm import Written, jvm_of, peak_bytes, written
from benchmarks.harness.stream import stream_of
from benchmarks.harness.testbed import Testbed, client
from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.jobs.audit import AuditResult, audit
from dedupe_pipeline.session import spark_session

VALUE_BYTES: Final = (64, 1_024)
KEY_BYTES: Final = 16
REPEATED_ONE_IN: Final = 20
LARGER_ARE_FEWER: Final = 6
"""Times fewer records have the larger values, for the disk's sake."""

_CORES: Final = 2
_PARTITIONS: Final = 2
_DRIVER_MEMORY: Final = "2g"
_BATCH: Final = 20_000
_MOST_QUEUED: Final = 200_000
_FLUSH_SECONDS: Final = 300.0
_START_MS: Final = 1_760_000_000_000
_MIX: Final = 0x9E3779B97F4A7C15
_ALL: Final = (1 << 64) - 1
_FILL: Final = b"".join(b"%016x" % (n * _MIX & _ALL) for n in range(1 << 14))
_PROGRESS_SECONDS: Final = 5.0


class AuditRun(Model):
    """An audit of both topics, with values of one size.

    CPU seconds are those of Spark's JVM.
    """

    value_bytes: int
    records: int
    output_records: int
    topic_bytes: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    written: Written

    @property
    def read(self) -> int:
        """The records of both topics."""
        return self.records + self.output_records

    @property
    def cpu_micros(self) -> float:
        """CPU time per record that is read."""
        return 1e6 * self.cpu_seconds / self.read


class Audits(Model):
    """Everything measured."""

    cores: int
    partitions: int
    driver_memory: str
    is_warm: bool = False
    """An audit came before those that were measured, so that Java had compiled most of it."""
    runs: list[AuditRun]

    @property
    def share_of_cores(self) -> float:
        """The share of the cores' time that Spark got, in the run with the least."""
        return min(run.cpu_seconds / (run.seconds * self.cores) for run in self.runs)

    @property
    def smallest(self) -> AuditRun:
        """The run with the smallest values."""
        return min(self.runs, key=lambda run: run.value_bytes)

    def cpu_micros(self, value_bytes: int) -> float:
        """Return the CPU time per record with values of another size, by a line through the runs."""
        low, high = (choose(self.runs, key=lambda run: run.value_bytes) for choose in (min, max))
        wider = high.value_bytes - low.value_bytes
        slope = (high.cpu_micros - low.cpu_micros) / wider if wider else 0.0
        return low.cpu_micros + slope * (value_bytes - low.value_bytes)

    @property
    def repeated(self) -> float:
        """The share of repeats in the input."""
        return 1 / REPEATED_ONE_IN

    def records_of(self, input_bytes: float, value_bytes: int) -> float:
        """Return the records of an input of so many bytes in keys and values."""
        return input_bytes / (value_bytes + KEY_BYTES)

    def core_hours(self, input_bytes: float, value_bytes: int) -> float:
        """Return the CPU hours of such an input and its output."""
        return self._read(input_bytes, value_bytes) * self.cpu_micros(value_bytes) / 3.6e9

    def disk_bytes(self, input_bytes: float, value_bytes: int) -> float:
        """Return what their audit shuffles."""
        of_record = self.smallest.written.shuffled / self.smallest.read
        return self._read(input_bytes, value_bytes) * of_record

    def _read(self, input_bytes: float, value_bytes: int) -> float:
        return self.records_of(input_bytes, value_bytes) * (2 - self.repeated)


def measure_audit(testbed: Testbed, *, records: int, report: Callable[[str], None]) -> Audits:
    """Audit the topics with the larger values to warm up, and then each. Raises BenchmarkFailed."""
    filled = []
    for size in sorted(VALUE_BYTES, reverse=True):
        many = records if size == VALUE_BYTES[0] else records // LARGER_ARE_FEWER
        raw, clean = (
            testbed.create_topic(name, partitions=_PARTITIONS) for name in ("raw", "clean")
        )
        output = _fill(testbed.bootstrap_servers, (raw, clean), many, size, report)
        stream = stream_of(testbed.bootstrap_servers, raw, clean)
        filled.append(_Filled(stream, size, many, output))
    events = testbed.scratch / "events"
    events.mkdir()
    spark = spark_session(
        "audit",
        master=f"local[{_CORES}]",
        properties={
            "spark.driver.memory": _DRIVER_MEMORY,
            "spark.local.dir": str(testbed.scratch / "spark"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
        },
    )
    try:
        _run(testbed, spark, filled[0], report)
        runs = {}
        for each in filled:
            began = _now_ms()
            run = _run(testbed, spark, each, report)
            runs[began, _now_ms()] = run
    finally:
        spark.stop()
    return Audits(
        cores=_CORES,
        partitions=_PARTITIONS,
        driver_memory=_DRIVER_MEMORY,
        is_warm=True,
        runs=[
            run.model_copy(update={"written": written(events, *period)})
            for period, run in reversed(runs.items())
        ],
    )


class _Filled(NamedTuple):
    """A stream whose topics are filled."""

    stream: DedupeStream
    value_bytes: int
    records: int
    output: int


def _run(
    testbed: Testbed, spark: SparkSession, filled: _Filled, report: Callable[[str], None]
) -> AuditRun:
    spec, jvm = filled.stream.spec, jvm_of(spark)
    before, began = sum(jvm.cpu_times()[:2]), time.perf_counter()
    with _stages_shown(spark, f"audit, values of {filled.value_bytes} bytes", report):
        result = audit(spark, filled.stream)
    seconds, cpu = time.perf_counter() - began, sum(jvm.cpu_times()[:2]) - before
    _check(result, filled.records, filled.output)
    return AuditRun(
        value_bytes=filled.value_bytes,
        records=filled.records,
        output_records=filled.output,
        topic_bytes=sum(
            file.stat().st_size
            for topic in (spec.input.shown, spec.output.topic)
            for file in testbed.scratch.glob(f"broker/**/{topic}-*/*.log")
        ),
        seconds=seconds,
        cpu_seconds=cpu,
        peak_bytes=peak_bytes(jvm),
        written=Written(shuffled=0, spilled=0),
    )


def _now_ms() -> int:
    return int(time.time() * 1000)


def _check(result: AuditResult, records: int, output: int) -> None:
    total = result.total
    found = (result.is_clean, total.raw_records, total.clean_records, total.removed)
    if found != (True, records, output, records - output):
        raise BenchmarkFailed(f"the audit of {records:,} and {output:,} records says {total}")


class _stages_shown:  # noqa: N801 (used like a function)
    """Reports the running stages while the block runs."""

    def __init__(self, spark: SparkSession, what: str, report: Callable[[str], None]) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._what, self._report, self._done = what, report, Event()
        self._thread = Thread(target=self._follow, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _follow(self) -> None:
        began = time.monotonic()
        while not self._done.wait(_PROGRESS_SECONDS):
            stages = [self._tracker.getStageInfo(n) for n in self._tracker.getActiveStageIds()]
            shown = ", ".join(
                f"stage {one.stageId}: {one.numCompletedTasks} of {one.numTasks} tasks"
                for one in stages
                if one
            )
            self._report(f"{self._what}: {time.monotonic() - began:.0f} s, {shown or 'planning'}")


def _fill(
    servers: str,
    topics: tuple[str, str],
    records: int,
    size: int,
    report: Callable[[str], None],
) -> int:
    """Fill both topics, and return the number of records of the output."""
    producer = Producer(
        {
            **client(servers),
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.num.messages": 50_000,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 4 * _MOST_QUEUED,
        }
    )
    output = 0
    for low in range(0, records, _BATCH):
        report(f"values of {size} bytes: {low:,} of {records:,} records sent")
        numbers = range(low, min(low + _BATCH, records))
        _send(producer, topics[0], numbers, size)
        firsts = [number for number in numbers if _original(number) == number]
        _send(producer, topics[1], firsts, size)
        output += len(firsts)
    if producer.flush(_FLUSH_SECONDS):
        raise BenchmarkFailed(f"the broker took no record for {_FLUSH_SECONDS:.0f} s")
    return output


def _send(producer: Producer, topic: str, numbers: Iterable[int], size: int) -> None:
    deadline = time.monotonic() + _FLUSH_SECONDS
    while len(producer) > _MOST_QUEUED:
        producer.poll(0.05)
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"the broker took no record for {_FLUSH_SECONDS:.0f} s")
    produce, last = producer.produce, len(_FILL) - size
    for number in numbers:
        original = _original(number)
        start = original * 8 % last
        produce(
            topic,
            _FILL[start : start + size],
            b"%016x" % (original * _MIX & _ALL),
            number % _PARTITIONS,
            timestamp=_START_MS + number,
        )


def _original(number: int) -> int:
    """Return the number of the message that this one repeats, or its own."""
    block, place = divmod(number, REPEATED_ONE_IN)
    if place != REPEATED_ONE_IN - 1 or not block:
        return number
    return block * _MIX % block * REPEATED_ONE_IN + 1
