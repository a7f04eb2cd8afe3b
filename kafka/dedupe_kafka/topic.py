"""The settings of an output topic, and the problems of existing topics.

`Cluster` and `side_topics` call it. Values in, values out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from dedupe_crds.quantity import format_duration, format_size

FOR_EVER_MS = -1
"""The retention of a topic that deletes nothing for its age."""

REPLICAS = "min.insync.replicas"
"""The setting of how many replicas must have a record before it is acknowledged."""

MOST_AHEAD = "message.timestamp.after.max.ms"
"""The setting by how much a record's timestamp may be ahead of the broker's time."""

_LARGEST_LONG = 2**63 - 1
_BEFORE = "message.timestamp.before.max.ms"
# Before Kafka 3.6: both of them.
_DIFFERENCE = "message.timestamp.difference.max.ms"


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A topic as the cluster describes it; `config` has Kafka's names and values."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def number(self, config: str) -> int:
        """Return a setting that is a whole number."""
        return int(self.config[config])

    @property
    def most_ahead_ms(self) -> int:
        """Return by how much a record's timestamp may be ahead of the broker's time."""
        return self._limit(MOST_AHEAD)

    @property
    def most_behind_ms(self) -> int:
        """Return by how much a record's timestamp may be behind the broker's time."""
        return self._limit(_BEFORE)

    def _limit(self, name: str) -> int:
        # A broker knows one name or both.
        return min(int(self.config.get(each, _LARGEST_LONG)) for each in (name, _DIFFERENCE))


@dataclass(frozen=True, kw_only=True)
class TopicProblem:
    """A problem of an output or side topic, and its remedy.

    `reason` is a stable CamelCase word. A `fatal` problem would lose or alter messages.
    """

    reason: str
    message: str
    fatal: bool


def config_for(source: Topic, max_age: timedelta) -> dict[str, str]:
    """Return the settings of a new output topic for the input `source`.

    The topic retains records at least as long as the window (`max_age`), because a lost store is rebuilt from it,
    however many bytes they are. It accepts every record that the input accepted, with the same timestamp.
    """
    return {
        **lasting_config(source.number("retention.ms"), max_age),
        "max.message.bytes": source.config["max.message.bytes"],
        REPLICAS: source.config[REPLICAS],
    }


def lasting_config(retention_ms: int, max_age: timedelta = timedelta(0)) -> dict[str, str]:
    """Return the settings of a new topic that keeps its records as they are.

    For `retention_ms`, and at least for `max_age`, whatever their timestamps are.
    """
    if retention_ms != FOR_EVER_MS:
        retention_ms = max(retention_ms, _milliseconds(max_age))
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": str(FOR_EVER_MS),
        "message.timestamp.type": "CreateTime",
        _BEFORE: str(_LARGEST_LONG),
        MOST_AHEAD: str(_LARGEST_LONG),
    }


def check(source: Topic, output: Topic, max_age: timedelta) -> list[TopicProblem]:
    """Return the problems of an existing output topic, fatal ones first."""
    return [
        *_fewer_partitions(source, output),
        *_compacted(output),
        *_other_timestamps(output),
        *_short_retention(output, max_age),
        *_limited_size(output),
        *_smaller_messages(source, output),
        *less_safe("OutputTopic", source, output),
        *refused_timestamps("OutputTopic", source, output),
    ]


def check_input(source: Topic) -> Iterator[TopicProblem]:
    """Yield the problems of an input topic. None is fatal: its owner may intend it."""
    if "compact" in source.config["cleanup.policy"]:
        yield TopicProblem(
            reason="InputCompacted",
            message=f"Input topic {source.name} is compacted: Kafka removes a message when a later one has its key, "
            "also before a worker has read it. Set its cleanup.policy to delete, unless the last message of each key "
            "is enough.",
            fatal=False,
        )


def less_safe(kind: str, source: Topic, topic: Topic) -> Iterator[TopicProblem]:
    """Yield the problem of a topic that is less safe than `source`."""
    copies = (topic.replication_factor, source.replication_factor)
    in_sync = (topic.number(REPLICAS), source.number(REPLICAS))
    if copies[0] < copies[1] or in_sync[0] < in_sync[1]:
        yield TopicProblem(
            reason=f"{kind}LessSafe",
            message=f"Topic {topic.name} has replication factor {copies[0]} and {REPLICAS} {in_sync[0]}, and topic "
            f"{source.name} has {copies[1]} and {in_sync[1]}: brokers may fail so that messages are lost from "
            f"the first and not from the second. Raise the first's to {max(copies)} and {max(in_sync)}.",
            fatal=False,
        )


def refused_timestamps(kind: str, source: Topic, topic: Topic) -> Iterator[TopicProblem]:
    """Yield the problem of a topic that refuses timestamps that `source` took.

    A message is as far in the future as it was when `source` took it, or less; but the later it is read, the further
    in the past.
    """
    if topic.most_behind_ms < _LARGEST_LONG or topic.most_ahead_ms < source.most_ahead_ms:
        names = [name for name in (_BEFORE, MOST_AHEAD, _DIFFERENCE) if name in topic.config]
        yield TopicProblem(
            reason=f"{kind}RefusesTimestamps",
            message=f"Topic {topic.name} refuses messages with timestamps far from its broker's time, and topic "
            f"{source.name} accepts them: a partition stops at one. Set {' and '.join(names)} of {topic.name} to "
            f"{_LARGEST_LONG}.",
            fatal=False,
        )


def _fewer_partitions(source: Topic, output: Topic) -> Iterator[TopicProblem]:
    if output.partitions < source.partitions:
        yield TopicProblem(
            reason="OutputTopicTooFewPartitions",
            message=f"Output topic {output.name} has {output.partitions} partitions, and input "
            f"topic {source.name} has {source.partitions}: partition p of the first belongs to partition "
            f"p of the second. Raise the output's partition count to {source.partitions}, or name "
            "another topic in spec.output.topic.",
            fatal=True,
        )


def _compacted(output: Topic) -> Iterator[TopicProblem]:
    if "compact" in output.config["cleanup.policy"]:
        yield TopicProblem(
            reason="OutputTopicCompacted",
            message=f"Output topic {output.name} is compacted, so Kafka would remove "
            "messages that are not duplicates: set its cleanup.policy to delete, or name another "
            "topic in spec.output.topic.",
            fatal=True,
        )


def _other_timestamps(output: Topic) -> Iterator[TopicProblem]:
    if output.config["message.timestamp.type"] != "CreateTime":
        yield TopicProblem(
            reason="OutputTopicReplacesTimestamps",
            message=f"Output topic {output.name} replaces the timestamps of messages: set its "
            "message.timestamp.type to CreateTime, or name another topic in spec.output.topic.",
            fatal=True,
        )


def _short_retention(output: Topic, max_age: timedelta) -> Iterator[TopicProblem]:
    retention_ms = output.number("retention.ms")
    if retention_ms != FOR_EVER_MS and retention_ms < _milliseconds(max_age):
        kept = format_duration(timedelta(milliseconds=retention_ms))
        yield TopicProblem(
            reason="OutputRetentionTooShort",
            message=f"Output topic {output.name} keeps messages for {kept}, less than "
            f"spec.store.window.maxAge ({format_duration(max_age)}): a lost store can be "
            f"rebuilt for {kept} only. Raise its retention.ms to {_milliseconds(max_age)}, or "
            "lower maxAge.",
            fatal=False,
        )


def _limited_size(output: Topic) -> Iterator[TopicProblem]:
    limit = int(output.config.get("retention.bytes", FOR_EVER_MS))
    if limit >= 0:
        yield TopicProblem(
            reason="OutputRetentionBySize",
            message=f"Output topic {output.name} keeps {format_size(limit)} a partition, however short a time that "
            "is: a lost store can be rebuilt for that time only. Set its retention.bytes to -1.",
            fatal=False,
        )


def _smaller_messages(source: Topic, output: Topic) -> Iterator[TopicProblem]:
    name = "max.message.bytes"
    if output.number(name) < source.number(name):
        yield TopicProblem(
            reason="OutputMessagesTooSmall",
            message=f"Output topic {output.name} accepts messages of {output.config[name]} bytes, "
            f"and input topic {source.name} of {source.config[name]}: a partition stops at a "
            f"message that is too large. Raise the output's {name} to {source.config[name]}.",
            fatal=False,
        )


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
