"""Tell records that a consumer group has to read from transaction markers.

`ranges` calls it. A group commits the offset after its last record, but markers and aborted records may follow that,
for which nothing is ever committed. So only a read can tell whether a record follows.
"""

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from dedupe_crds.deadline import Deadline
from dedupe_kafka.client import calling, made, reading_config
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.fetch_errors import fetch_error
from dedupe_pipeline.connection import KafkaConnection

_READ_SECONDS = 30.0
_POLL_SECONDS = 1.0
_READ = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",  # what is deleted needs no reading
    "fetch.wait.max.ms": 50,
    "fetch.message.max.bytes": 1 << 16,  # one record of each partition is enough
    "log_level": 0,  # the errors raised name the failure
}

Offsets = Mapping[int, int]
"""An offset of each partition."""


def unread(
    connection: KafkaConnection, group: str, topic: str, *, committed: Offsets, ends: Offsets
) -> dict[int, int]:
    """Return the offsets left in each partition that has a record before its end.

    Raises:
        BrokerUnavailable: Kafka does not answer.
    """
    behind = {n: end - committed.get(n, 0) for n, end in ends.items() if committed.get(n, 0) < end}
    if not behind:
        return {}
    config = reading_config(connection.bootstrap_servers, connection.properties)
    consumer = made(Consumer, {**config, **_READ, "group.id": group})
    places = [TopicPartition(topic, n, committed.get(n, 0)) for n in behind]
    with calling(f"reading {topic}"), closing(consumer):
        consumer.assign(places)
        return {n: behind[n] for n in _with_records(consumer, topic, {n: ends[n] for n in behind})}


def _with_records(consumer: Consumer, topic: str, ends: Offsets) -> set[int]:
    """Return the partitions that have a record before their end."""
    waiting, found = set(ends), set()
    deadline = Deadline(_READ_SECONDS)
    while waiting:
        message = consumer.poll(min(_POLL_SECONDS, deadline.remaining()))
        if message is None:
            if deadline.expired:
                raise BrokerUnavailable(
                    f"reading {topic}, partitions {sorted(waiting)}: no answer in {_READ_SECONDS:.0f} s; check that "
                    "Kafka runs and can be reached from here"
                )
            continue
        number = message.partition()
        if number in waiting and (is_record := _is_record(message, ends[number])) is not None:
            waiting.discard(number)
            consumer.pause([TopicPartition(topic, number)])
            if is_record:
                found.add(number)
    return found


def _is_record(message: Message, end: int) -> bool | None:
    """Return whether it is a record before `end`; None if that is open."""
    offset = message.offset() or 0
    error = message.error()
    if error is None:
        return offset < end
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public name)
        return False if offset >= end else None
    if error.retriable():
        return None
    raise fetch_error(message, error)
