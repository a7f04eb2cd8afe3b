"""Header names that the client library cannot read, or cuts: what Spark's sources, `land` and `audit` make of them."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_pipeline.jobs.audit import Outcome, audit
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.source import read_clean
from tests.component.worker.test_damaged_input import (
    messages,
    send_with_name,
    send_with_name_not_utf_8,
    wait_until_held,
)
from tests.support.fixtures import CreateStream
from tests.support.patience import HANG_SECONDS
from tests.support.processes.processes import Workers
from tests.support.spark.landed import landed
from tests.support.spark.session import spark
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import START_MS, produce

__all__ = ["spark"]

BEFORE = 3
REPLACED, CUT, WHOLE = "\N{REPLACEMENT CHARACTER}ame-here", "name", "name\0here"
NUL = WHOLE.encode()


@pytest.fixture
def stream(streams: CreateStream) -> TestStream:
    return streams(partitions=1)


def fill(broker: EmbeddedBroker, topic: str, name: bytes) -> None:
    """Write records, one with such a header among them."""
    produce(broker.bootstrap_servers, topic, messages(BEFORE))
    send_with_name(broker, topic, name)
    produce(broker.bootstrap_servers, topic, messages(2, BEFORE))


def options(made: TestStream) -> dict[str, str]:
    return {"bootstrapServers": made.bootstrap_servers, "topic": made.output_topic}


def ours(spark: SparkSession, made: TestStream, **more: str) -> DataFrame:
    return spark.read.format("dedupestream").options(**options(made), **more).load()


def names(frame: DataFrame) -> list[str]:
    return [header.key for row in frame.collect() for header in row.headers or ()]


def test_a_name_that_is_not_utf_8_stops_the_data_source_by_its_place(
    spark: SparkSession, broker: EmbeddedBroker, stream: TestStream, tmp_path: Path
) -> None:
    fill(broker, stream.output_topic, b"\xffame-here")
    said = (
        rf"RecordUnreadable: the record at offset {BEFORE} of {stream.output_topic}/0 .*read_clean"
    )

    with pytest.raises(PySparkException, match=said):
        ours(spark, stream).collect()
    with pytest.raises(PySparkException, match=said):
        ours(spark, stream, header="v", filter="a").collect()
    assert ours(spark, stream, endingOffsets=f'{{"0": {BEFORE}}}').count() == BEFORE
    assert ours(spark, stream, startingOffsets=f'{{"0": {BEFORE + 1}}}').count() == 2
    frame = spark.readStream.format("dedupestream").options(**options(stream)).load()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match=said):
        query.awaitTermination(HANG_SECONDS)


def test_sparks_own_source_and_a_landing_replace_what_is_not_utf_8_in_a_name(
    spark: SparkSession, broker: EmbeddedBroker, stream: TestStream, tmp_path: Path
) -> None:
    fill(broker, stream.output_topic, b"\xffame-here")
    manifest = load_manifest(stream.manifest)

    land(spark, manifest, tmp_path / "landed")

    assert names(read_clean(spark, manifest)) == [REPLACED]
    assert {row[5] for row in landed(tmp_path / "landed")} == {(), ((REPLACED, b"v"),)}


def test_a_name_with_a_nul_is_whole_in_sparks_own_source_and_cut_in_ours(
    spark: SparkSession, broker: EmbeddedBroker, stream: TestStream, tmp_path: Path
) -> None:
    """If the data source has it whole, the client library is fixed, and the docs are wrong."""
    fill(broker, stream.output_topic, NUL)
    manifest = load_manifest(stream.manifest)

    land(spark, manifest, tmp_path / "landed")

    assert names(ours(spark, stream)) == [CUT]
    assert names(read_clean(spark, manifest)) == [WHOLE]
    assert {row[5] for row in landed(tmp_path / "landed")} == {(), ((WHOLE, b"v"),)}


def test_the_audit_finds_a_name_that_a_worker_has_cut(
    spark: SparkSession, broker: EmbeddedBroker, stream: TestStream, workers: Workers
) -> None:
    fill(broker, stream.input_topic, NUL)
    workers.start(stream).wait_until_caught_up()

    (found,) = audit(spark, load_manifest(stream.manifest)).partitions

    assert (found.altered, found.lost, found.foreign, found.clean_records) == (1, 0, 0, BEFORE + 3)


def test_the_audit_of_a_stream_that_waits_at_a_name_counts_the_rest_as_pending(
    spark: SparkSession, broker: EmbeddedBroker, stream: TestStream, workers: Workers
) -> None:
    stream.send(messages(BEFORE))
    send_with_name_not_utf_8(broker, stream.input_topic)
    stream.send(messages(2, BEFORE))
    worker = workers.start(stream)
    wait_until_held(worker, "RecordUnreadable", f"at offset {BEFORE} of {stream.input_topic}/0")
    worker.wait_until(lambda: stream.progress().get(0) == BEFORE, "what stands before it passes")

    result = audit(spark, load_manifest(stream.manifest), up_to_committed=True)

    (found,) = result.partitions
    assert (result.outcome, found.pending, found.clean_records) == (Outcome.CLEAN, 3, BEFORE)


def test_the_audit_takes_two_names_that_are_not_utf_8_for_one(
    spark: SparkSession, broker: EmbeddedBroker, stream: TestStream
) -> None:
    """If it does not, Spark's source shows the bytes, and the docs are wrong."""
    send_with_name(broker, stream.input_topic, b"\xffame-here", START_MS)
    send_with_name(broker, stream.output_topic, b"\xfeame-here", START_MS)

    result = audit(spark, load_manifest(stream.manifest))

    assert (result.outcome, result.partitions[0].clean_records) == (Outcome.CLEAN, 1)
