"""Read the offsets that a consumer group has committed.

`Cluster` and the worker do.
"""

from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from dedupe_crds.deadline import Deadline
from dedupe_kafka.client import calling, kafka_error

_RETRY_SECONDS: Final = 0.1
# The errors of a broker that has just started.
_COORDINATOR_ON_ITS_WAY: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


def read_group_offsets(
    consumer: Consumer,
    wanted: Sequence[TopicPartition],
    *,
    timeout_seconds: float,
    deadline: Deadline,
    where: str = "",
    partly: bool = False,
) -> list[TopicPartition]:
    """Return what the consumer's group has committed; a negative offset is none.

    With `partly`, what Kafka refuses of a partition is not raised, but is its `error`.

    A coordinator that is on its way is waited for until `deadline`. Raises the named error of `kafka_error`, whose
    message ends with `where`.
    """
    while True:
        with calling(_action(wanted[0], where)):
            try:
                found = consumer.committed(list(wanted), timeout=timeout_seconds)
            except KafkaException as error:
                if error.args[0].code() not in _COORDINATOR_ON_ITS_WAY or deadline.expired:
                    raise
                consumer.poll(_RETRY_SECONDS)
                continue
        for each in found:
            if each.error is not None and not partly:
                raise kafka_error(each.error, _action(each, where))
        return list(found)


def _action(of: TopicPartition, where: str) -> str:
    return f"reading the committed offset of {of.topic}/{of.partition}{where}"
