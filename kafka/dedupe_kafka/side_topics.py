"""The topics beside a stream's output: those that records are routed to, and those with what is noted of chunks.

Partition p of each belongs to partition p of the input.
"""

from collections.abc import Iterator
from datetime import timedelta
from math import inf
from typing import Final

from dedupe_crds.spec.stream import Spec
from dedupe_crds.spec.topics import ConflictPolicy, Delivery, DuplicatePolicy
from dedupe_kafka.topic import Topic, TopicProblem, config_for

_FOR_EVER: Final = "-1"
_LARGEST_LONG: Final = str(2**63 - 1)
# What the worker adds to a record that it routes is less.
_HEADERS_BYTES: Final = 1024


def filters_topic(output: str) -> str:
    """The topic with the filters of an output topic.

    >>> filters_topic("orders-clean")
    'orders-clean-filters'
    """
    return f"{output}-filters"


def owners_topic(output: str) -> str:
    """The topic that says which input record each record of an output topic was.

    >>> owners_topic("orders-clean")
    'orders-clean-owners'
    """
    return f"{output}-owners"


def routed_topics(spec: Spec) -> list[str]:
    """The topics that a stream routes records to."""
    named = (spec.duplicates.topic, spec.conflicts.topic, spec.late.topic)
    return sorted({topic for topic in named if topic})


def notes_topics(spec: Spec) -> list[str]:
    """The topics that a stream's worker writes notes to."""
    topics = []
    if spec.output.filter is not None:
        topics.append(filters_topic(spec.output.topic))
    if notes_owners(spec):
        topics.append(owners_topic(spec.output.topic))
    return topics


def notes_owners(spec: Spec) -> bool:
    """Whether anybody is told of owners, so that they must be right after a rebuild as well.

    Without transactions a note may be missing or speak of records that came out again, so there are none.
    """
    tells = (
        spec.duplicates.policy is DuplicatePolicy.TOPIC
        or spec.conflicts.policy is ConflictPolicy.TOPIC
    )
    return tells and spec.delivery is Delivery.EXACTLY_ONCE


def routed_config(source: Topic) -> dict[str, str]:
    """The settings of a new topic for records of the input `source`, with some headers more."""
    largest = source.number("max.message.bytes") + _HEADERS_BYTES
    return config_for(source, timedelta(0)) | {"max.message.bytes": str(largest)}


def notes_config(output: Topic) -> dict[str, str]:
    """The settings of a new topic for notes: kept as long as the output keeps what they speak of.

    By time only: a bound in bytes that fits the output is no measure for notes. What outlives its records does no harm.
    """
    return {
        "cleanup.policy": "delete",
        "retention.ms": output.config["retention.ms"],
        "retention.bytes": _FOR_EVER,
        "min.insync.replicas": output.config["min.insync.replicas"],
        # Filters have the timestamps of what they speak of, of whatever time that is.
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": _LARGEST_LONG,
        "message.timestamp.after.max.ms": _LARGEST_LONG,
    }


def check_routed(source: Topic, output: Topic, topic: Topic) -> Iterator[TopicProblem]:
    """What is wrong with a topic for records of the input `source` that is there already, the fatal first."""
    yield from _check_beside(output, topic)
    if topic.config["message.timestamp.type"] != "CreateTime":
        yield TopicProblem(
            reason="SideTopicReplacesTimestamps",
            message=f"Topic {topic.name} replaces the timestamps of messages: set its message.timestamp.type to "
            "CreateTime.",
            fatal=True,
        )
    largest = source.number("max.message.bytes") + _HEADERS_BYTES
    if topic.number("max.message.bytes") < largest:
        yield TopicProblem(
            reason="SideMessagesTooSmall",
            message=f"Topic {topic.name} takes messages of {topic.config['max.message.bytes']} bytes, and input topic "
            f"{source.name} of {source.config['max.message.bytes']}, to which headers are added: a partition stops at "
            f"one that is too large. Raise the max.message.bytes of {topic.name} to {largest}.",
            fatal=False,
        )


def check_notes(output: Topic, topic: Topic) -> Iterator[TopicProblem]:
    """What is wrong with a topic for notes about `output` that is there already, the fatal first."""
    yield from _check_beside(output, topic)
    if _retention(topic) < _retention(output):
        yield TopicProblem(
            reason="SideRetentionTooShort",
            message=f"Topic {topic.name} keeps notes for a shorter time than output topic {output.name} keeps the "
            "messages that they are about: older ones are read as if there were none. Raise its retention.ms to "
            f"{output.config['retention.ms']}.",
            fatal=False,
        )


def _check_beside(output: Topic, topic: Topic) -> Iterator[TopicProblem]:
    if topic.partitions < output.partitions:
        yield TopicProblem(
            reason="SideTopicTooFewPartitions",
            message=f"Topic {topic.name} has {topic.partitions} partitions, and output topic {output.name} has "
            f"{output.partitions}: partition p of one belongs to partition p of the other. Raise the partition count "
            f"of {topic.name} to {output.partitions}.",
            fatal=True,
        )
    if "compact" in topic.config["cleanup.policy"]:
        yield TopicProblem(
            reason="SideTopicCompacted",
            message=f"Topic {topic.name} is compacted, so Kafka itself would remove records from it, and takes none "
            "without a key: set its cleanup.policy to delete.",
            fatal=True,
        )


def _retention(topic: Topic) -> float:
    milliseconds = topic.number("retention.ms")
    return milliseconds if milliseconds >= 0 else inf
