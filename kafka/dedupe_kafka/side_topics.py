"""Auxiliary topics: side outputs and per-transaction metadata.

Side outputs hold routed records: duplicates, conflicts and late records. Metadata topics hold the owner log and the
chunk filters. The worker writes them, the cluster check and the readers use them. Invariant: partition p of each
belongs to partition p of the input.
"""

from collections.abc import Iterator
from datetime import timedelta
from math import inf
from typing import Final

from dedupe_crds.spec.stream import Spec
from dedupe_crds.spec.topics import ConflictPolicy, Delivery, DuplicatePolicy
from dedupe_kafka.topic import Topic, TopicProblem, config_for, less_safe, refused_timestamps

_FOR_EVER: Final = "-1"
_LARGEST_LONG: Final = str(2**63 - 1)
# An upper bound of the headers that the worker adds to a routed record.
_HEADERS_BYTES: Final = 1024


def filters_topic(output: str) -> str:
    """Return the name of the topic with the filters of an output topic.

    >>> filters_topic("orders-clean")
    'orders-clean-filters'
    """
    return f"{output}-filters"


def owners_topic(output: str) -> str:
    """Return the name of the owner log: it maps output records to input records.

    >>> owners_topic("orders-clean")
    'orders-clean-owners'
    """
    return f"{output}-owners"


def routed_topics(spec: Spec) -> list[str]:
    """Return the names of a stream's side outputs."""
    named = (spec.duplicates.topic, spec.conflicts.topic, spec.late.topic)
    return sorted({topic for topic in named if topic})


def metadata_topics(spec: Spec) -> list[str]:
    """Return the names of a stream's metadata topics."""
    topics = []
    if spec.output.filter is not None:
        topics.append(filters_topic(spec.output.topic))
    if needs_owner_log(spec):
        topics.append(owners_topic(spec.output.topic))
    return topics


def needs_owner_log(spec: Spec) -> bool:
    """Return whether the stream needs the owner log.

    It does if routed records name the owner, which must then be correct after a rebuild as well. Without transactions
    an entry may be missing, or name a record that was produced again, so there is no owner log.
    """
    names_owners = (
        spec.duplicates.policy is DuplicatePolicy.TOPIC
        or spec.conflicts.policy is ConflictPolicy.TOPIC
    )
    return names_owners and spec.delivery is Delivery.EXACTLY_ONCE


def routed_config(source: Topic) -> dict[str, str]:
    """Return the settings of a new side output for records of the input `source`.

    Its records are larger than the input's by the headers that the worker adds.
    """
    largest = source.number("max.message.bytes") + _HEADERS_BYTES
    return config_for(source, timedelta(0)) | {"max.message.bytes": str(largest)}


def metadata_config(output: Topic) -> dict[str, str]:
    """Return the settings of a new metadata topic.

    Entries are kept at least as long as the output records that they describe. The retention is by time only: the
    output's limit in bytes does not fit the small entries. An entry that outlives its records does no harm.
    """
    return {
        "cleanup.policy": "delete",
        "retention.ms": output.config["retention.ms"],
        "retention.bytes": _FOR_EVER,
        "min.insync.replicas": output.config["min.insync.replicas"],
        # A filter has the timestamp of the records that it describes, which may be of any time.
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": _LARGEST_LONG,
        "message.timestamp.after.max.ms": _LARGEST_LONG,
    }


def check_routed(source: Topic, output: Topic, topic: Topic) -> Iterator[TopicProblem]:
    """Yield the problems of an existing side output, fatal ones first.

    `source` is the input topic.
    """
    yield from _check_side_topic(output, topic)
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
            message=f"Topic {topic.name} accepts messages of {topic.config['max.message.bytes']} bytes, and input "
            f"topic {source.name} of {source.config['max.message.bytes']}, to which headers are added: a partition "
            f"stops at a message that is too large. Raise the max.message.bytes of {topic.name} to {largest}.",
            fatal=False,
        )
    yield from refused_timestamps("SideTopic", source, topic)


def check_metadata(output: Topic, topic: Topic) -> Iterator[TopicProblem]:
    """Yield the problems of an existing metadata topic of `output`, fatal ones first."""
    yield from _check_side_topic(output, topic)
    if _retention(topic) < _retention(output):
        yield TopicProblem(
            reason="SideRetentionTooShort",
            message=f"Topic {topic.name} retains its records for a shorter time than output topic {output.name} "
            "retains the messages that they describe: for older messages they are missing. Raise its retention.ms to "
            f"{output.config['retention.ms']}.",
            fatal=False,
        )


def _check_side_topic(output: Topic, topic: Topic) -> Iterator[TopicProblem]:
    if topic.partitions < output.partitions:
        yield TopicProblem(
            reason="SideTopicTooFewPartitions",
            message=f"Topic {topic.name} has {topic.partitions} partitions, and output topic {output.name} has "
            f"{output.partitions}: partition p of the first belongs to partition p of the second. Raise the "
            f"partition count of {topic.name} to {output.partitions}.",
            fatal=True,
        )
    if "compact" in topic.config["cleanup.policy"]:
        yield TopicProblem(
            reason="SideTopicCompacted",
            message=f"Topic {topic.name} is compacted, so Kafka would remove records from it, and rejects records "
            "without a key: set its cleanup.policy to delete.",
            fatal=True,
        )
    yield from less_safe("SideTopic", output, topic)


def _retention(topic: Topic) -> float:
    milliseconds = topic.number("retention.ms")
    return milliseconds if milliseconds >= 0 else inf
