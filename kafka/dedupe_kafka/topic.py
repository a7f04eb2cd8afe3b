"""The settings of an output topic, and the problems of an existing one.

`Cluster` and `side_topics` call it. Values in, values out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from dedupe_crds.quantity import format_duration

FOR_EVER_MS = -1
"""The retention of a topic that deletes nothing for its age."""

_LARGEST_LONG = 2**63 - 1


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

    The topic retains records at least as long as the window (`max_age`), because a lost store is rebuilt from it. It
    accepts every record that the input accepted, with the same timestamp.
    """
    return {
        **lasting_config(source.number("retention.ms"), max_age),
        "max.message.bytes": source.config["max.message.bytes"],
        "min.insync.replicas": source.config["min.insync.replicas"],
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
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": str(_LARGEST_LONG),
        "message.timestamp.after.max.ms": str(_LARGEST_LONG),
    }


def check(source: Topic, output: Topic, max_age: timedelta) -> list[TopicProblem]:
    """Return the problems of an existing output topic, fatal ones first."""
    return [
        *_fewer_partitions(source, output),
        *_compacted(output),
        *_other_timestamps(output),
        *_short_retention(output, max_age),
        *_smaller_messages(source, output),
    ]


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
