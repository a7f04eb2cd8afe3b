"""Readers of a stream's topics: committed records only, as the same six columns everywhere."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.offsets import TopicRange

# Half the CPU time of reading with the client's own 500 records a poll and 1 MiB a fetch.
_FETCH = {"kafka.max.poll.records": "5000", "kafka.max.partition.fetch.bytes": str(8 << 20)}

COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
SCHEMA = (
    "partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""These columns' types, as Spark's DDL."""


def read_clean(
    spark: SparkSession,
    stream: DedupeStream,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    starting_offsets: str = "earliest",
) -> DataFrame:
    """The clean topic as it is now, one row per record.

    Columns: `partition` int, `offset` long (with gaps: count records, do not subtract offsets),
    `timestamp` (the producer's, in milliseconds), `key` and `value` binary, null where the record's
    are, `headers` array of (`key` string, `value` binary) in order with repeats, null if none.

    `kafka_options` are client properties with librdkafka's names, as in the worker's file.
    `starting_offsets` is "earliest" or JSON {"topic": {"0": offset}}. Records that retention deletes
    while they are read make the job fail; they are not skipped.
    """
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options)
    options = _options(connection, stream.spec.output.topic) | {
        "startingOffsets": starting_offsets,
        "endingOffsets": "latest",
    }
    return spark.read.format("kafka").options(**options).load().select(*COLUMNS)


def read_clean_stream(
    spark: SparkSession,
    stream: DedupeStream,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    starting_offsets: str = "earliest",
    max_offsets_per_trigger: int | None = None,
) -> DataFrame:
    """The clean topic as an unbounded table; columns and options as in `read_clean`.

    `max_offsets_per_trigger` bounds a micro-batch, over all partitions together.
    """
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options)
    options = _options(connection, stream.spec.output.topic)
    options["startingOffsets"] = starting_offsets
    if max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)


def read_range(spark: SparkSession, connection: KafkaConnection, span: TopicRange) -> DataFrame:
    """Just the committed records of any topic from `span.starts` to before `span.ends`."""
    options = _options(connection, span.topic) | {
        "startingOffsets": _offsets_json(span.topic, span.starts),
        "endingOffsets": _offsets_json(span.topic, span.ends),
    }
    return spark.read.format("kafka").options(**options).load().select(*COLUMNS)


def _options(connection: KafkaConnection, topic: str) -> dict[str, str]:
    return (
        connection.spark_options()
        | _FETCH
        | {
            "subscribe": topic,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }
    )


def _offsets_json(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in offsets.items()}})
