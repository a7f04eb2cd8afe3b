"""Name the record whose timestamp stops Spark's Kafka source.

The commands call it after Spark has failed. A producer that stamps in nanoseconds exceeds Spark's timestamps, which end
in the year 294247. Spark's source then fails each read of that record, and no option of it helps, while the data source
`dedupestream` reads it. Kafka finds such a record by its index of timestamps.
"""

from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, TopicPartition

from dedupe_kafka.client import calling, made, reading_config
from dedupe_pipeline.connection import KafkaConnection

_FIRST_BEYOND_MS = (2**63 - 1) // 1000 + 1
_TEXT_OF_JAVA = "long overflow"
_SECONDS = 20.0


def overflow_named(
    error: Exception, connection: KafkaConnection, topics: Sequence[str]
) -> str | None:
    """Return the cause of an error of Spark, None if it is no such timestamp."""
    if _TEXT_OF_JAVA not in str(error):
        return None
    found = _records_beyond(connection, topics)
    if not found:
        return None
    return (
        f"Spark's Kafka source cannot represent the timestamps, such as in nanoseconds, of records from {found[0]} on "
        f"(partitions with such records: {len(found)}). Read the topic by the data source dedupestream, which returns "
        "null for them, or delete the records up to them once all consumers have read those (kafka-delete-records). "
        "Let the topic refuse others: message.timestamp.after.max.ms"
    )


def _records_beyond(connection: KafkaConnection, topics: Sequence[str]) -> list[str]:
    """Return the first such record of each partition; none if Kafka is silent."""
    cluster = connection.cluster()
    config = reading_config(connection.bootstrap_servers, connection.properties)
    consumer = made(Consumer, {**config, "group.id": "dedupestream-timestamps", "log_level": 0})
    wanted = [
        TopicPartition(topic, number, _FIRST_BEYOND_MS)
        for topic in topics
        for number in range(cluster.partition_count(topic))
    ]
    with calling("finding timestamps"), closing(consumer):
        try:
            found = consumer.offsets_for_times(wanted, timeout=_SECONDS)
        except KafkaException:
            return []
    return [
        f"offset {each.offset} of {each.topic}/{each.partition}"
        for each in found
        if each.error is None and each.offset >= 0
    ]
