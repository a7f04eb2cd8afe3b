"""Read the offsets that the stream's consumer group has committed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from dedupe_kafka.client import kafka_error
from dedupe_worker.clock import Clock
from dedupe_worker.kafka.take_over import split_token

_TIMEOUT_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 0.1
# The errors of a broker that has just started.
_COORDINATOR_ON_ITS_WAY: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed input offset with its metadata, if any.

    `take_over` is the token of the worker that committed it, see take_over.py.
    """

    offset: int
    metadata: str | None
    take_over: str | None = None


def read_committed(
    consumer: Consumer, clock: Clock, topic: str, partitions: Iterable[int]
) -> dict[int, Committed]:
    """Return what the consumer's group has committed, by partition.

    Raises the named error of `kafka_error`.
    """
    where = [TopicPartition(topic, each) for each in partitions]
    deadline = clock.deadline(_TIMEOUT_SECONDS)
    while True:
        try:
            found = consumer.committed(where, timeout=_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR_ON_ITS_WAY or deadline.expired:
                raise kafka_error(error, _action(where[0])) from error
            consumer.poll(_RETRY_SECONDS)
            continue
        for each in found:
            if each.error is not None:
                raise kafka_error(each.error, _action(each))
        return {
            each.partition: Committed(each.offset, *split_token(each.metadata))
            for each in found
            if each.offset >= 0
        }


def _action(where: TopicPartition) -> str:
    return f"reading the committed offset of {where.topic}/{where.partition}"
