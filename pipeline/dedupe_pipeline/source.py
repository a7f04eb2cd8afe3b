"""Read a stream's topics with Spark's Kafka source, as the same six columns.

The jobs and users' notebooks call it. Invariant: only committed records, and no silent gap.
"""

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.kafka_source_options import ENDING, LIMITS, STARTING, refuse

# Half the CPU time of a read with the client's defaults of 500 records a poll and 1 MiB a fetch.
_FETCH = {
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    # After each poll Spark asks for the ends of the topic, and the broker answers only after the fetch that the client
    # has sent meanwhile. At the end of a topic that fetch waits: by default, each task takes half a second longer.
    "kafka.fetch.max.wait.ms": "10",
}

COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
SCHEMA = (
    "partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The types of these columns, as Spark DDL."""


def read_clean(
    spark: SparkSession,
    stream: DedupeStream,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    spark_kafka_options: Mapping[str, str] | None = None,
    starting_offsets: str | None = None,
) -> DataFrame:
    """Return the present output topic, one row per record.

    Columns: `partition` int, `offset` long (with gaps: count records, do not subtract offsets),
    `timestamp` (the producer's, in milliseconds), `key` and `value` binary, null if the record's are null, `headers`
    array of (`key` string, `value` binary) in order and with repeated keys, null if none.

    `kafka_options` are client properties with librdkafka's names, as in the worker's file.
    `spark_kafka_options` are those of Spark's Kafka source, such as minPartitions, startingTimestamp or endingOffsets;
    with `kafka.` before it, a property of its Java client.
    `starting_offsets` is "earliest" (the default) or JSON {"topic": {"0": offset}}. The job fails if
    retention deletes records during the read; they are not skipped.

    Raises:
        RequestRefused: the results depend on an option, Spark does not know it, or cannot use it here.
    """
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options, spark_kafka_options)
    refuse(connection.source_options, LIMITS, "a batch reads everything")
    options = {"endingOffsets": "latest", **_options(connection, stream.spec.output.topic)}
    options |= _starting(connection, starting_offsets)
    return spark.read.format("kafka").options(**options).load().select(*COLUMNS)


def read_clean_stream(
    spark: SparkSession,
    stream: DedupeStream,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    spark_kafka_options: Mapping[str, str] | None = None,
    starting_offsets: str | None = None,
    max_offsets_per_trigger: int | None = None,
) -> DataFrame:
    """Return the output topic as an unbounded table.

    Columns and options are those of `read_clean`.

    `max_offsets_per_trigger` bounds a micro-batch, over all partitions together.
    """
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options, spark_kafka_options)
    refuse(connection.source_options, ENDING, "a stream has no end")
    options = _options(connection, stream.spec.output.topic)
    options |= _starting(connection, starting_offsets)
    if max_offsets_per_trigger is not None:
        limit = ("maxOffsetsPerTrigger",)
        refuse(
            connection.source_options,
            limit,
            "max_offsets_per_trigger is the same, as --max-offsets-per-trigger",
        )
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)


def read_range(
    spark: SparkSession,
    connection: KafkaConnection,
    offsets: TopicOffsets,
    *,
    tasks: int | None = None,
) -> DataFrame:
    """Return a topic's committed records from `offsets.lows` to before `offsets.ends`.

    `tasks` is how many tasks read it at least; by default each partition has one.
    """
    return read_ranges(spark, connection, [offsets], tasks=tasks).select(*COLUMNS)


def read_ranges(
    spark: SparkSession,
    connection: KafkaConnection,
    topics: Sequence[TopicOffsets],
    *,
    tasks: int | None = None,
) -> DataFrame:
    """Return the same of several topics, at least one, with a column `topic` too."""
    set_here = (*STARTING, *ENDING, *LIMITS)
    refuse(connection.source_options, set_here, "the job determines the offsets to read")
    options = _options(connection, *(each.topic for each in topics)) | {
        "startingOffsets": _offsets_json({each.topic: each.lows for each in topics}),
        "endingOffsets": _offsets_json({each.topic: each.ends for each in topics}),
    }
    if tasks is not None:
        options["minPartitions"] = str(tasks)
    return spark.read.format("kafka").options(**options).load().select("topic", *COLUMNS)


def _options(connection: KafkaConnection, *topics: str) -> dict[str, str]:
    return (
        _FETCH
        | connection.spark_options()
        | {
            "subscribe": ",".join(topics),
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }
    )


def _starting(connection: KafkaConnection, starting_offsets: str | None) -> dict[str, str]:
    if starting_offsets is not None:
        refuse(connection.source_options, STARTING, "the starting offsets are given already")
    elif "startingOffsets" in connection.source_options:
        return {}
    return {"startingOffsets": starting_offsets or "earliest"}


def _offsets_json(topics: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps(
        {
            topic: {str(number): at for number, at in offsets.items()}
            for topic, offsets in topics.items()
        }
    )
