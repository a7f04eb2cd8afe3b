"""The named errors of a router, apart from those of Kafka."""

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import Fenced, StreamError


class Rebalanced(StreamError):
    """The consumer group has another generation than the one that read the records."""

    retriable = True


class TransactionLost(StreamError):
    """A transaction outlived its time-out, or another router has this number."""

    retriable = True


class RouterOffsetsLost(StreamError):
    """The group has no offsets, although records were routed before."""

    retriable = True


class RepartitionTopicReplaced(StreamError):
    """The repartition topic was deleted, or has another number of partitions."""

    retriable = True


class OffsetOutOfRange(StreamError):
    """The next offset is not in the partition; the next session finds the start again."""

    retriable = True


class InputTopicReplaced(StreamError):
    """An input was deleted and created again under the running router."""

    retriable = True


_REBALANCED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)


def named_error(error: KafkaException, action: str) -> StreamError:
    """Return the named error of a failed call."""
    cause: KafkaError = error.args[0]
    if cause.code() in _REBALANCED:
        return Rebalanced(f"{action}: {cause.str()}; the records are sent again by their owner")
    named = kafka_error(error, action)
    if isinstance(named, Fenced):
        return TransactionLost(f"{named}. Do two routers of this stream have the same number?")
    return named
