"""Data source `dedupestream` on a real broker returns the rows of a full read."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dedupe_crds.manifest import load_manifest
from dedupe_kafka.errors import InvalidConfig, RecordsExpired
from dedupe_kafka.side_topics import filters_topic
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.datasource.options import read_options
from dedupe_pipeline.datasource.stream import StreamReader
from dedupe_pipeline.source import COLUMNS, read_clean
from dedupe_pipeline.timestamp_overflow import overflow_named
from tests.support.checker import history
from tests.support.checker.record import Message, Record
from tests.support.fixtures import CreateStream
from tests.support.patience import HANG_SECONDS
from tests.support.spark.session import spark
from tests.support.traffic.chunks import HEADER, ChunkWriter, chosen, filtered
from tests.support.traffic.streams import stream_manifest
from tests.support.traffic.topic_changes import add_partitions
from tests.support.traffic.traffic import produce_in_transaction

__all__ = ["filtered", "spark"]

CreateFiltered = Callable[..., str]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def load(spark: SparkSession, servers: str, topic: str, **options: str) -> DataFrame:
    given = {"bootstrapServers": servers, "topic": topic, "header": HEADER, **options}
    return spark.read.format("dedupestream").options(**given).load()


def fill(servers: str, topic: str, chunks: int = 20, partitions: int = 2) -> list[Record]:
    """Write transactions: every third with `a`, others with `b` or none.

    Some have no filter, some are aborted.
    """
    for partition in range(partitions):
        writer = ChunkWriter(servers, topic, partition)
        for number in range(chunks):
            rare = b"a" if number % 3 == 0 else b"b"
            values = [rare, b"%d" % number, None if number % 5 == 0 else b"c"] * 10
            writer.transaction(values, claimed=number % 7 != 6)
            writer.transaction([b"a"] * 3, commit=False)
        writer.settle()
    return history.read_topic(servers, topic)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(_row(row) for row in frame.collect())


def _row(row: Row) -> tuple[object, ...]:
    headers = tuple((header["key"], bytes(header["value"])) for header in row["headers"] or ())
    return (row["partition"], row["offset"], bytes(row["key"]), bytes(row["value"]), headers)


def expected(records: list[Record]) -> list[tuple[object, ...]]:
    return sorted((r.partition, r.offset, r.key, r.value, r.headers) for r in records)


# -- batches -------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_a_read_of_everything_is_that_of_sparks_own_source(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    fill(servers, topic)
    stream = stream_manifest(tmp_path, servers, "raw", topic)

    ours = load(spark, servers, topic)
    theirs = read_clean(spark, load_manifest(stream.manifest))

    assert tuple(ours.columns) == COLUMNS
    assert [(f.name, f.dataType) for f in ours.schema] == [
        (f.name, f.dataType) for f in theirs.schema
    ]
    assert sorted(ours.collect()) == sorted(theirs.collect())


@pytest.mark.proof
def test_a_filtered_read_is_that_of_everything_filtered(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    everything = fill(servers, topic)

    for tasks in ("1", "7"):
        some = {"minPartitions": tasks}
        loaded = load(spark, servers, topic, filter="a", **some)
        two = load(spark, servers, topic, filter='["3", "b"]', matchUnfiltered="true", **some)
        none = load(spark, servers, topic, filter="[]", **some)
        assert rows(loaded) == expected(chosen(everything, [b"a"]))
        assert rows(two) == expected(chosen(everything, [b"3", b"b"], unfiltered=True))
        assert rows(none) == []


def test_without_being_told_it_takes_values_from_where_the_filters_have_them(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    everything = fill(servers, topic)
    options = {"bootstrapServers": servers, "topic": topic, "filter": "a"}

    frame = spark.read.format("dedupestream").options(**options).load()

    assert rows(frame) == expected(chosen(everything, [b"a"]))


def test_work_is_divided_among_tasks(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    fill(servers, topic)

    assert load(spark, servers, topic).rdd.getNumPartitions() == 2
    assert load(spark, servers, topic, minPartitions="8").rdd.getNumPartitions() in range(8, 11)


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """Set the option with which Spark passes conditions to a source."""
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def fill_ten(servers: str, topic: str) -> list[Record]:
    """Write ten chunks, each with its own value and with records without a value."""
    writer = ChunkWriter(servers, topic)
    for number in range(10):
        writer.transaction([b"%d" % number, None] * 10)
    writer.settle()
    return history.read_topic(servers, topic)


@pytest.mark.usefixtures("pushdown")
def test_conditions_on_the_filter_column_are_right_however_the_frame_is_used(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    everything = fill_ten(servers, topic)
    frame = load(spark, servers, topic, filterColumn="letter")

    three, four = frame.where("letter = '3'"), frame.where("letter IN ('4')")

    assert rows(three.union(four)) == expected(chosen(everything, [b"3", b"4"]))
    assert {row.letter for row in frame.collect()} == {None, *map(str, range(10))}
    assert frame.where("letter IS NULL").count() == 100


@pytest.mark.usefixtures("pushdown")
def test_conditions_that_are_pushed_skip_as_the_option_does(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    everything = fill_ten(servers, topic)
    pushing = {"filterColumn": "letter", "pushFilters": "true", "gapOffsets": "0"}
    some = load(spark, servers, topic, **pushing).where(
        "letter IN ('2', '7') AND length(value) > 0"
    )

    assert rows(some) == expected(chosen(everything, [b"2", b"7"]))
    assert rows_read(some) == 20
    assert (
        rows_read(load(spark, servers, topic, filterColumn="letter").where("letter = '2'")) == 200
    )


@pytest.mark.usefixtures("pushdown")
def test_spark_still_keeps_what_was_pushed_so_that_it_has_to_be_asked_for(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    """If this fails, Spark is fixed, and pushFilters can be on by default."""
    servers, topic = broker.bootstrap_servers, filtered()
    fill_ten(servers, topic)
    frame = load(spark, servers, topic, filterColumn="letter", pushFilters="true")

    both = frame.where("letter = '3'").union(frame.where("letter = '4'"))

    assert both.count() == 10


def rows_read(frame: DataFrame) -> int:
    """Return how many rows a source has returned, before Spark's own filter."""
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()  # noqa: SLF001 (Spark has no public way)
    scans = [leaves.apply(at) for at in range(leaves.size())]
    return sum(int(scan.metrics().apply("numOutputRows").value()) for scan in scans)


def test_parts_of_a_topic_can_be_read(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    everything = fill(servers, topic)
    part = [r for r in everything if r.partition == 1 and 40 <= r.offset < 200]

    frame = load(
        spark, servers, topic, startingOffsets='{"1": 40}', endingOffsets='{"1": 200}', filter="a"
    )

    assert rows(frame) == expected(chosen(part, [b"a"]))


def test_an_empty_topic_has_no_rows(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    assert load(spark, broker.bootstrap_servers, filtered(), filter="a").count() == 0


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"filterr": "a"}, "option filterr is unknown"),
        ({"topic": "no-such-topic"}, "no-such-topic"),
        ({"startingOffsets": '{"9": 0}'}, "has no partition 9"),
        ({"kafka.no.such": "x"}, "No such configuration property"),
    ],
)
def test_what_can_not_be_read_is_named(
    spark: SparkSession,
    broker: EmbeddedBroker,
    filtered: CreateFiltered,
    options: dict[str, str],
    reported: str,
) -> None:
    with pytest.raises(AnalysisException, match=reported):
        load(spark, broker.bootstrap_servers, **{"topic": filtered(), **options}).count()


def test_client_properties_are_not_shown(
    spark: SparkSession,
    broker: EmbeddedBroker,
    filtered: CreateFiltered,
    capfd: pytest.CaptureFixture[str],
) -> None:
    frame = load(
        spark, broker.bootstrap_servers, filtered(), **{"kafka.sasl.password": "hidden-word"}
    )
    frame.explain(mode="extended")
    frame.count()

    assert "hidden-word" not in capfd.readouterr().out


def test_odd_timestamps_stop_no_read(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    """One record in nanoseconds stops Spark's own Kafka source for ever, by name."""
    stream = streams()
    servers, topic = stream.bootstrap_servers, stream.output_topic
    fine, nanoseconds = 1_700_000_000_000, 1_700_000_000_000_000_000
    odd = [fine, -1, nanoseconds // 1000, nanoseconds, fine]
    sent = [Message(0, b"k", b"v", timestamp_ms=stamp) for stamp in odd]
    produce_in_transaction(servers, topic, sent, commit=True)
    options = {"bootstrapServers": servers, "topic": topic, "timestampMsColumn": "ms"}

    batch = spark.read.format("dedupestream").options(**options).load()
    found = batch.orderBy("offset").select("ms", "timestamp").collect()
    streamed = spark.readStream.format("dedupestream").options(**options).load()
    query = (
        streamed.select("offset", "ms", "timestamp")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert query.awaitTermination(HANG_SECONDS)

    assert [row["ms"] for row in found] == odd
    assert [row["timestamp"] is None for row in found] == [False, True, True, True, False]
    written = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").select("ms", "timestamp")
    assert written.collect() == found
    theirs = read_clean(spark, load_manifest(stream.manifest))
    with pytest.raises((Py4JError, PySparkException)) as failed:
        theirs.selectExpr("max(timestamp)").collect()
    connection = KafkaConnection.of(load_manifest(stream.manifest))
    named = overflow_named(failed.value, connection, [topic])
    assert named is not None
    assert f"from offset 3 of {topic}/0 on" in named


# -- streams -------------------------------------------------------------------------------------------


class Collected:
    """The rows of a query's micro-batches, by batch number."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[object, ...]]] = {}

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = rows(frame)

    @property
    def rows(self) -> list[tuple[object, ...]]:
        return sorted(row for batch in self.batches.values() for row in batch)


def run(  # noqa: PLR0917 (what and where, in the order of a sentence)
    spark: SparkSession,
    servers: str,
    topic: str,
    checkpoint: Path,
    into: Collected,
    options: dict[str, str],
    *,
    once: bool = True,
) -> StreamingQuery:
    """Start a query; with `once` wait until it has read all current records."""
    given = {"bootstrapServers": servers, "topic": topic, "header": HEADER, **options}
    frame = spark.readStream.format("dedupestream").options(**given).load()
    writer = frame.writeStream.foreachBatch(into).option("checkpointLocation", str(checkpoint))
    writer = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    )
    query = writer.start()
    if once:
        assert query.awaitTermination(HANG_SECONDS)
    return query


def test_a_stream_reads_what_is_there_once_and_goes_on_from_its_checkpoint(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    fill(servers, topic, chunks=8)
    got, again = Collected(), Collected()

    run(spark, servers, topic, tmp_path, got, {"filter": "a"})
    first = got.rows
    everything = fill(servers, topic, chunks=8)
    run(spark, servers, topic, tmp_path, again, {"filter": "a"})

    assert first
    assert sorted(first + again.rows) == expected(chosen(everything, [b"a"]))
    quiet = Collected()
    run(spark, servers, topic, tmp_path, quiet, {"filter": "a"})
    assert quiet.rows == []


def test_a_limit_of_a_micro_batch_is_refused_where_spark_has_none() -> None:
    """Spark before 4.2 does not ask Python data sources for it; the smoke test of 4.2 reads with one."""
    options = {"bootstrapServers": "127.0.0.1:1", "topic": "t", "maxRecordsPerTrigger": "150"}
    with pytest.raises(InvalidConfig, match=r"maxRecordsPerTrigger needs Spark 4\.2"):
        StreamReader(read_options(options))


def test_a_stream_follows_what_comes(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    got = Collected()
    query = run(spark, servers, topic, tmp_path, got, {"filter": '["a", "b"]'}, once=False)
    try:
        for _ in range(3):
            everything = fill(servers, topic, chunks=4)
            query.processAllAvailable()
        progress = query.lastProgress
    finally:
        query.stop()

    assert got.rows == expected(chosen(everything, [b"a", b"b"]))
    assert progress is not None
    ends = json.loads(progress.json)["sources"][0]["endOffset"]["offsets"]
    assert ends == {str(p): end for p, end in history.end_offsets(servers, topic).items()}


def test_what_was_planned_and_not_done_is_read_again_after_a_restart(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    """A failed batch has its offsets in the checkpoint; later filters change nothing."""
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)

    class Failing(Collected):
        def __call__(self, frame: DataFrame, number: int) -> None:
            super().__call__(frame, number)
            if number == 2:
                raise RuntimeError("no more")

    failing, rest, last = Failing(), Collected(), Collected()
    asked = {"filter": "a"}
    for _ in range(2):
        fill(servers, topic, chunks=4)
        run(spark, servers, topic, tmp_path, failing, asked)
    fill(servers, topic, chunks=4)
    with pytest.raises(StreamingQueryException):
        run(spark, servers, topic, tmp_path, failing, asked)
    everything = fill(servers, topic, chunks=4)
    run(spark, servers, topic, tmp_path, rest, asked)
    run(spark, servers, topic, tmp_path, last, asked)

    assert failing.batches[2] == rest.batches[2]
    done = [row for number in (0, 1) for row in failing.batches[number]]
    assert sorted(done + rest.rows + last.rows) == expected(chosen(everything, [b"a"]))


def test_a_stream_that_begins_beyond_the_end_waits_for_what_comes_there(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    """Offsets that are not committed yet may be given; earlier records are not read."""
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"a"] * 5)
    writer.settle()
    given = {"bootstrapServers": servers, "topic": topic, "header": HEADER}
    reader = StreamReader(read_options({**given, "startingOffsets": '{"0": 8}'}))

    start = reader.initialOffset()
    assert reader.latestOffset(start) == start
    assert list(reader.partitions(start, start)) == []
    writer.transaction([b"a"] * 5)
    writer.settle()
    end = reader.latestOffset(start)
    [share] = reader.partitions(start, end)
    batches = list(reader.read(share))
    reader.stop()

    assert [offset for each in batches for offset in each["offset"].to_pylist()] == [8, 9, 10]


def test_a_stream_whose_records_are_gone_fails(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"a"] * 10)
    writer.settle()
    run(spark, servers, topic, tmp_path, Collected(), {"filter": "a"})
    writer.transaction([b"a"] * 10)
    writer.settle()
    where = TopicPartition(topic, 0, 15)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_records([where])[where].result(timeout=HANG_SECONDS)

    with pytest.raises(StreamingQueryException, match="begins at 15; read from there"):
        run(spark, servers, topic, tmp_path, Collected(), {"filter": "a"})


def test_a_stream_reads_partitions_that_are_added_meanwhile_from_their_beginning(
    spark: SparkSession, broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    """Within a query and between two."""
    servers, topic = broker.bootstrap_servers, filtered()
    got, more = Collected(), Collected()
    fill(servers, topic, chunks=4, partitions=1)
    query = run(spark, servers, topic, tmp_path, got, {"filter": "a"}, once=False)
    try:
        query.processAllAvailable()
        grow(servers, topic, 2)
        fill(servers, topic, chunks=4, partitions=2)
        query.processAllAvailable()
    finally:
        query.stop()
    grow(servers, topic, 3)
    everything = fill(servers, topic, chunks=4, partitions=3)
    run(spark, servers, topic, tmp_path, more, {"filter": "a"})

    assert sorted(got.rows + more.rows) == expected(chosen(everything, [b"a"]))


def test_records_of_an_added_partition_that_are_gone_before_they_are_read_are_told(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    given = {"bootstrapServers": servers, "topic": topic, "header": HEADER}
    reader = StreamReader(read_options(given))
    start = reader.initialOffset()
    grow(servers, topic, 2)
    writer = ChunkWriter(servers, topic, 1)
    writer.transaction([b"a"] * 10)
    writer.settle()
    where = TopicPartition(topic, 1, 5)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_records([where])[where].result(timeout=HANG_SECONDS)

    end = reader.latestOffset(start)
    with pytest.raises(RecordsExpired, match="begins at 5"):
        reader.partitions(start, end)
    reader.stop()


def grow(servers: str, topic: str, partitions: int) -> None:
    """Add partitions to a topic and to that of its filters."""
    for name in (topic, filters_topic(topic)):
        add_partitions(servers, name, partitions)
