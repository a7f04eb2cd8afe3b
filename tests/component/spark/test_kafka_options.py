"""Options of Spark's Kafka source reach it, among them logins that only the Java client knows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # NewTopic is public
    AdminClient,
    NewTopic,
)
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.audit import Outcome, audit
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.source import read_clean, read_clean_stream
from tests.support.fixtures import HOLDS_ANYTHING, CreateStream
from tests.support.processes.oauth_broker import LOGIN, USER, OauthBroker
from tests.support.spark.landed import expected, landed
from tests.support.spark.session import spark
from tests.support.traffic.streams import TestStream, stream_manifest
from tests.support.traffic.traffic import produce, retries

__all__ = ["spark"]

SEED = 11
RECORDS = 300
LIBRDKAFKA = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": f"principal={USER}",
}


def java(user: str) -> dict[str, str]:
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": LOGIN.format(user),
    }


@pytest.fixture(scope="module", name="oauth")
def _oauth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OauthBroker]:
    with OauthBroker(tmp_path_factory.mktemp("oauth")) as running:
        yield running


@pytest.fixture(scope="module", name="secured")
def _secured(oauth: OauthBroker, tmp_path_factory: pytest.TempPathFactory) -> TestStream:
    """Fill a stream whose manifest names the listener with tokens; its messages came by the other."""
    admin = AdminClient({"bootstrap.servers": oauth.bootstrap_servers})
    made = [
        NewTopic(topic, 2, config={name: str(value) for name, value in HOLDS_ANYTHING.items()})
        for topic in ("raw", "clean")
    ]
    for topic, answer in admin.create_topics(made).items():
        answer.result()
        produce(
            oauth.bootstrap_servers, topic, retries(SEED, RECORDS, partitions=2, repeat_rate=0.0)
        )
    return stream_manifest(tmp_path_factory.mktemp("stream"), oauth.oauth_servers, "raw", "clean")


def test_a_token_of_the_java_client_reads_what_its_user_may(
    spark: SparkSession, secured: TestStream
) -> None:
    stream = load_manifest(secured.manifest)

    read = read_clean(spark, stream, spark_kafka_options=java(USER))
    assert read.count() == RECORDS
    with pytest.raises(Py4JJavaError, match=r"(?i)authoriz"):
        read_clean(spark, stream, spark_kafka_options=java("stranger")).count()


def test_jobs_log_in_with_both_clients_each_by_its_own_properties(
    spark: SparkSession, secured: TestStream, tmp_path: Path
) -> None:
    stream, login = load_manifest(secured.manifest), java(USER)

    result = audit(spark, stream, kafka_options=LIBRDKAFKA, spark_kafka_options=login)
    done = land(
        spark,
        stream,
        tmp_path / "landed",
        kafka_options=LIBRDKAFKA,
        spark_kafka_options=login,
    )

    assert result.outcome is Outcome.CLEAN
    assert done.records == RECORDS


def test_a_login_that_fails_is_in_no_error_and_in_no_log(
    spark: SparkSession, secured: TestStream, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    claim = 'unsecuredLoginStringClaim_note="nobodys-secret";'
    login = java("stranger")
    login["kafka.sasl.jaas.config"] = LOGIN.format("stranger").replace(";", f" {claim}")
    read = read_clean_stream(spark, load_manifest(secured.manifest), spark_kafka_options=login)
    query = read.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()

    with pytest.raises(StreamingQueryException, match=r"(?i)authoriz") as failed:
        query.awaitTermination(120)

    said = "".join(capfd.readouterr())
    assert "nobodys-secret" not in f"{failed.value}{said}"


def test_ranges_of_time_and_partitions_are_those_of_the_options(
    spark: SparkSession, streams: CreateStream
) -> None:
    made = streams(partitions=2)
    sent = list(retries(SEED, RECORDS, partitions=2, repeat_rate=0.0))
    produce(made.bootstrap_servers, made.output_topic, sent)
    middle = sorted(message.timestamp_ms or 0 for message in sent)[RECORDS // 2]
    stream = load_manifest(made.manifest)

    later = {"startingTimestamp": str(middle), "MINPARTITIONS": "7"}
    earlier = {"endingTimestamp": str(middle)}
    read = read_clean(spark, stream, spark_kafka_options=later)
    before = read_clean(spark, stream, spark_kafka_options=earlier)

    assert read.rdd.getNumPartitions() >= 7
    assert (read.count(), before.count()) == (RECORDS - RECORDS // 2, RECORDS // 2)


def test_landing_can_begin_later_and_takes_no_limit_twice(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    made = streams(partitions=1)
    produce(made.bootstrap_servers, made.output_topic, retries(SEED, RECORDS, partitions=1))
    stream, output = load_manifest(made.manifest), tmp_path / "landed"
    begin = {"startingOffsets": f'{{"{made.output_topic}": {{"0": 100}}}}'}

    land(spark, stream, output, spark_kafka_options=begin)

    assert landed(output) == expected(made.clean()[100:])
    with pytest.raises(RequestRefused, match="max_offsets_per_trigger is the same"):
        land(spark, stream, output, spark_kafka_options={"maxOffsetsPerTrigger": "5"})
    with pytest.raises(RequestRefused, match="the job determines the offsets"):
        audit(spark, stream, spark_kafka_options={"startingOffsets": "latest"})
