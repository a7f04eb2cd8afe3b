"""Savings of readers by chunk filters, and the cost of Spark's data source.

A topic is written as a worker writes it: each chunk (transaction) has a filter, and records of 512 bytes with one of 10
values. All records of a chunk have the same value, so one chunk in ten matches a value. Chunks have several sizes. Then
the topic is read
  - by the plain reader: everything, filtered as it arrives, and with the filters;
  - by Spark: everything by the data source and by Spark's own Kafka source, and filtered by the data source both ways.
Every read must return as many records as there are. Measured as well: the rate of false matches, and the number of
offsets from which a gap between two ranges is cheaper to skip than to fetch.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final
from uuid import uuid4

import numpy as np
from confluent_kafka import Message, Producer

from benchmarks.cases.filters_spark import SparkRead, Wanted, spark_reads
from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.testbed import Testbed, client
from benchmarks.harness.traffic import key_of, value_of
from dedupe_filters.bloom import build, false_matches, may_contain_any
from dedupe_filters.builder import FilterBuilder
from dedupe_filters.reader import FilteredReader
from dedupe_filters.selection import GAP_OFFSETS
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import Origin
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.side_topics import filters_topic

CHUNKS: Final = (1_000, 10_000, 100_000)  # records in a chunk
VALUES: Final = 10
PUBLISHED: Final = (
    (10, 16, 0.02),
    (30, 16, 0.14),
    (200, 128, 0.10),
)  # values, bytes, rate: RabbitMQ
GAPS: Final = (50, 100, 200, 500, 1_000, 2_000, 5_000)

HEADER: Final = "carrier"
_WANTED: Final = b"value-3"
_SAMPLES: Final = 4_000  # filters of each kind
_ASKED: Final = 50  # values, of each filter
_GAP_SPANS: Final = 40
_GAP_RECORDS: Final = 500  # between two gaps
_SECONDS: Final = 120.0


class Rate(Model):
    """The rate at which a filter of so many values matches a value it does not hold."""

    values: int
    size_bytes: int
    published: float
    expected: float
    measured: float


class Read(Model):
    """A read: records found, seconds, and bytes received from the broker."""

    records: int
    seconds: float
    fetched_bytes: int


class Skipping(Model):
    """The plain reader's rounds on chunks of the same size."""

    chunk_records: int
    everything: list[Read]
    skipping: list[Read]

    @property
    def saved(self) -> float:
        """The share of the bytes that was not fetched."""
        fetched = [
            sum(r.fetched_bytes for r in reads) for reads in (self.skipping, self.everything)
        ]
        return 1 - fetched[0] / fetched[1]

    @property
    def speedup(self) -> float:
        """The speed of skipping divided by that of reading everything, of medians."""
        return median(r.seconds for r in self.everything) / median(r.seconds for r in self.skipping)


class Gap(Model):
    """Milliseconds for each gap of so many offsets: fetched, or skipped."""

    offsets: int
    fetched_ms: float
    skipped_ms: float


class Filters(Model):
    """Everything measured."""

    messages: int
    rates: list[Rate]
    sizes: list[Skipping]
    gaps: list[Gap]
    spark: list[SparkRead]

    @property
    def spark_reads(self) -> dict[str, list[SparkRead]]:
        """Spark's reads by what they read."""
        reads = dict.fromkeys(run.what for run in self.spark)
        return {what: [run for run in self.spark if run.what == what] for what in reads}

    def cpu_seconds(self, what: str) -> float:
        """Return the median of a read of Spark's."""
        return median(run.cpu_seconds for run in self.spark if run.what == what)


def measure_filters(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> Filters:
    """Measure all of it. Raises BenchmarkFailed."""
    report("asking filters")
    rates = [_rate(*kind) for kind in PUBLISHED]
    sizes = []
    for chunk in CHUNKS:
        report(f"writing {messages:,} records in chunks of {chunk:,}")
        topic = _fill(testbed, messages, chunk)
        report(f"reading chunks of {chunk:,}")
        sizes.append(_skipping(testbed.bootstrap_servers, topic, messages, chunk, rounds))
        if chunk == CHUNKS[1]:
            wanted = Wanted(HEADER, _WANTED, messages, _matching(messages, chunk))
            spark_runs = spark_reads(testbed.bootstrap_servers, topic, wanted, rounds, report)
        testbed.delete_topics(topic, filters_topic(topic))
    report("reading across gaps")
    gaps = [_gap(testbed, offsets, rounds) for offsets in GAPS]
    return Filters(messages=messages, rates=rates, sizes=sizes, gaps=gaps, spark=spark_runs)


def _rate(values: int, size_bytes: int, published: float) -> Rate:
    rng = random.Random(values)
    blooms = [build([rng.randbytes(8) for _ in range(values)], size_bytes) for _ in range(_SAMPLES)]
    bits = np.frombuffer(b"".join(b.bits for b in blooms), np.uint8).reshape(-1, size_bytes)
    hashes = np.array([b.hashes for b in blooms])
    found = [may_contain_any(bits, hashes, [rng.randbytes(9)]).mean() for _ in range(_ASKED)]
    return Rate(
        values=values,
        size_bytes=size_bytes,
        published=published,
        expected=false_matches(values, size_bytes, blooms[0].hashes),
        measured=float(np.mean(found)),
    )


# -- topics --------------------------------------------------------------------------------------------


def _fill(testbed: Testbed, messages: int, chunk: int) -> str:
    """Write a topic: chunk number n has records with the value number n modulo VALUES."""
    topic = create_filtered(testbed)
    with chunk_writer(testbed.bootstrap_servers, topic) as write:
        for number, start in enumerate(range(0, messages, chunk)):
            write(start, min(chunk, messages - start), b"value-%d" % (number % VALUES))
    return topic


def create_filtered(testbed: Testbed) -> str:
    """Create a topic and that of its filters."""
    topic = testbed.create_topic("filters")
    cluster = Cluster(testbed.bootstrap_servers)
    cluster.create(filters_topic(topic), 1, 1, {"retention.ms": "-1"})
    cluster.wait_for(filters_topic(topic))
    return topic


@contextmanager
def chunk_writer(servers: str, topic: str) -> Iterator[Callable[[int, int, bytes], None]]:
    """Provide a function that writes a chunk.

    Its arguments are the number of the first record, the number of records, and their value.
    """
    collector = FilterBuilder(FilterSource.header(HEADER), 16, Cluster(servers).offsets(topic).id)
    transactional_id = uuid4().hex
    producer = Producer(
        {
            **client(servers),
            "transactional.id": transactional_id,
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 1_000_000,
        }
    )
    producer.init_transactions(_SECONDS)

    def write(first: int, count: int, value: bytes) -> None:
        offsets: list[int] = []
        headers: list[tuple[str, str | bytes | None]] = [(HEADER, value)]

        def heard(_: object, message: Message) -> None:
            offsets.append(message.offset() or 0)

        producer.begin_transaction()
        for number in range(first, first + count):
            key = key_of(number)
            report = heard if number in {first, first + count - 1} else None
            while True:
                try:
                    producer.produce(topic, value_of(number, key), key, 0, report, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(_SECONDS)
        collector.add([Message(topic=topic, headers=headers, timestamp=(1, 1))] * count)
        made = collector.finish(min(offsets), max(offsets), Origin.TRANSACTION)
        producer.produce(filters_topic(topic), made.value, transactional_id, partition=0)
        producer.commit_transaction(_SECONDS)

    yield write


# -- the plain reader ----------------------------------------------------------------------------------


def _skipping(servers: str, topic: str, messages: int, chunk: int, rounds: int) -> Skipping:
    everything, skipping = [], []
    wanted = _matching(messages, chunk)
    for _ in range(rounds):
        everything.append(_read(servers, topic, wanted, skip=False))
        skipping.append(_read(servers, topic, wanted, skip=True))
    return Skipping(chunk_records=chunk, everything=everything, skipping=skipping)


def _matching(messages: int, chunk: int) -> int:
    """Return the number of records that have the wanted value."""
    return sum(
        min(chunk, messages - start)
        for number, start in enumerate(range(0, messages, chunk))
        if number % VALUES == int(_WANTED[-1:])
    )


def _read(
    servers: str, topic: str, wanted: int, *, skip: bool, gap_offsets: int = GAP_OFFSETS
) -> Read:
    value_of_record = FilterSource.header(HEADER).extractor()
    began = time.perf_counter()
    with FilteredReader(
        servers,
        topic,
        values=[_WANTED] if skip else None,
        header=HEADER,
        gap_offsets=gap_offsets,
    ) as reader:
        found = sum(
            sum(value_of_record(record) == _WANTED for record in records)
            for records in reader.batches()
        )
        seconds = time.perf_counter() - began
        fetched = reader.statistics.bytes_fetched
    if found != wanted:
        raise BenchmarkFailed(f"{found} records were found in {topic}, and there are {wanted}")
    return Read(records=found, seconds=seconds, fetched_bytes=fetched)


def _gap(testbed: Testbed, offsets: int, rounds: int) -> Gap:
    """Read spans with gaps between them, both ways."""
    topic = create_filtered(testbed)
    with chunk_writer(testbed.bootstrap_servers, topic) as write:
        for number in range(_GAP_SPANS):
            write(number * 10_000, _GAP_RECORDS, _WANTED)
            write(number * 10_000 + 5_000, offsets, b"other")
    wanted = _GAP_SPANS * _GAP_RECORDS
    seconds = {
        gap: median(
            _read(testbed.bootstrap_servers, topic, wanted, skip=True, gap_offsets=gap).seconds
            for _ in range(rounds)
        )
        for gap in (0, 2 * offsets)
    }
    testbed.delete_topics(topic, filters_topic(topic))
    per_gap = 1000 / _GAP_SPANS
    return Gap(
        offsets=offsets,
        fetched_ms=seconds[2 * offsets] * per_gap,
        skipped_ms=seconds[0] * per_gap,
    )
