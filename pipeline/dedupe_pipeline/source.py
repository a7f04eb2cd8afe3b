"""Read a stream's topics with Spark's Kafka source, as the same six columns.

The jobs and users' notebooks call it. Invariant: only committed records, and no silent gap.
"""

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection

# Half the CPU time of a read with the client's defaults of 500 records a poll and 1 MiB a fetch.
_FETCH = {"kafka.max.poll.records": "5000", "kafka.max.partition.fetch.bytes": str(8 << 20)}

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
    starting_offsets: str = "earliest",
) -> DataFrame:
    """Return the present output topic, one row per record.

    Columns: `partition` int, `offset` long (with gaps: count records, do not subtract offsets),
    `timestamp` (the producer's, in milliseconds), `key` and `value` binary, null if the record's are null, `headers`
    array of (`key` string, `value` binary) in order and with repeated keys, null if none.

    `kafka_options` are client properties with librdkafka's names, as in the worker's file.
    `starting_offsets` is "earliest" or JSON {"topic": {"0": offset}}. The job fails if
    retention deletes records during the read; they are not skipped.
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
    """Return the output topic as an unbounded table.

    Columns and options are those of `read_clean`.

    `max_offsets_per_trigger` bounds a micro-batch, over all partitions together.
    """
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options)
    options = _options(connection, stream.spec.output.topic)
    options["startingOffsets"] = starting_offsets
    if max_offsets_per_trigger is not None:
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
    options = _options(connection, *(each.topic for each in topics)) | {
        "startingOffsets": _offsets_json({each.topic: each.lows for each in topics}),
        "endingOffsets": _offsets_json({each.topic: each.ends for each in topics}),
    }
    if tasks is not None:
        options["minPartitions"] = str(tasks)
    return spark.read.format("kafka").options(**options).load().select("topic", *COLUMNS)


def _options(connection: KafkaConnection, *topics: str) -> dict[str, str]:
    return (
        connection.spark_options()
        | _FETCH
        | {
            "subscribe": ",".join(topics),
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }
    )


def _offsets_json(topics: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps(
        {
            topic: {str(number): at for number, at in offsets.items()}
            for topic, offsets in topics.items()
        }
    )
