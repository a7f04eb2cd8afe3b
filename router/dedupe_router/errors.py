"""The named errors of a router, apart from those of Kafka."""

from dedupe_kafka.errors import StreamError


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
