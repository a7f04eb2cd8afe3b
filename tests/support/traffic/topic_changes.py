"""Change topics and groups under a worker, as administrators and retention do."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # NewTopic is public
    AdminClient,
    NewPartitions,
    NewTopic,
)

from tests.support.checker.history import admin_client
from tests.support.fixtures import HOLDS_ANYTHING
from tests.support.patience import wait_for
from tests.support.traffic.streams import TestStream

_SECONDS = 30.0


def delete_records(stream: TestStream, topic: str, before: int, partition: int = 0) -> None:
    """Delete the records before an offset, as retention does."""
    _wait_for_all(
        _admin(stream).delete_records([TopicPartition(topic, partition, before)]).values()
    )


def delete_topic(stream: TestStream, topic: str) -> None:
    """Delete a topic, and wait until its name is free."""
    admin = _admin(stream)
    _wait_for_all(admin.delete_topics([topic], operation_timeout=_SECONDS).values())
    wait_for(lambda: topic not in admin.list_topics(timeout=_SECONDS).topics, f"{topic} is gone")


def create_topic(stream: TestStream, topic: str, partitions: int = 1) -> None:
    """Create a topic with the settings of a test's streams."""
    config = {key: str(value) for key, value in HOLDS_ANYTHING.items()}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
    _wait_for_all(_admin(stream).create_topics([new], operation_timeout=_SECONDS).values())


def add_partitions(bootstrap_servers: str, topic: str, total: int) -> None:
    """Give a topic `total` partitions, and wait until they are seen."""
    admin = admin_client(bootstrap_servers)
    _wait_for_all(admin.create_partitions([NewPartitions(topic, total)]).values())
    wait_for(
        lambda: len(admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions) == total,
        f"{topic} has {total} partitions",
    )


def delete_group(stream: TestStream) -> None:
    """Delete the stream's consumer group, as a week without commits does."""
    _wait_for_all(_admin(stream).delete_consumer_groups([stream.group]).values())


def set_committed(stream: TestStream, offset: int, partition: int = 0) -> None:
    """Set the group's offset, as `kafka-consumer-groups --reset-offsets` does."""
    where = TopicPartition(stream.input_topic, partition, offset)
    request = ConsumerGroupTopicPartitions(stream.group, [where])
    _wait_for_all(_admin(stream).alter_consumer_group_offsets([request]).values())
    wait_for(lambda: stream.committed().get(partition) == offset, f"{offset} is committed")


def _wait_for_all(answers: Iterable[Any]) -> None:
    """Wait for the answers of admin requests. Raises KafkaException."""
    for answer in answers:
        found = answer.result(_SECONDS)
        if error := getattr(found, "error", None):
            raise KafkaException(error)


def _admin(stream: TestStream) -> AdminClient:
    return admin_client(stream.bootstrap_servers)
