"""A byte that was flipped on a broker's disk stops each of Spark's sources, by the place of its batch."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.audit import audit
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.source import read_clean
from tests.component.worker.test_damaged_input import messages
from tests.support.checker.record import Message
from tests.support.fixtures import CreateStream
from tests.support.processes.brokers import flip
from tests.support.spark.session import spark
from tests.support.traffic.traffic import produce

__all__ = ["spark"]

BEFORE = 3


def test_a_flipped_byte_stops_sparks_sources_by_its_place(
    spark: SparkSession, broker: EmbeddedBroker, streams: CreateStream, tmp_path: Path
) -> None:
    """Kafka's Java client compares checksums by default, so that Spark's source needs no option."""
    made = streams(partitions=1)
    servers, topic = made.bootstrap_servers, made.output_topic
    for batch in (messages(BEFORE), [Message(0, b"bad", b"damaged-here")], messages(2, BEFORE)):
        produce(servers, topic, batch)
    repair = flip(broker, topic, b"damaged-here")
    stream = load_manifest(made.manifest)
    by_ours = {"bootstrapServers": servers, "topic": topic}
    java = rf"(?s)Record batch for partition {topic}-0 at offset {BEFORE} is invalid"

    with pytest.raises((Py4JJavaError, PySparkException), match=java):
        read_clean(spark, stream).collect()
    with pytest.raises(PipelineError, match=java):
        land(spark, stream, tmp_path / "landed")
    with pytest.raises((Py4JJavaError, PySparkException), match=java):
        audit(spark, stream)
    with pytest.raises(PySparkException, match=rf"RecordCorrupt.*offset {BEFORE} of {topic}/0"):
        spark.read.format("dedupestream").options(**by_ours).load().collect()

    repair()
    assert read_clean(spark, stream).count() == BEFORE + 3
