"""The clean topic beside its input: how to make one, and whether one that is there will do."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from dedupe_crds.quantity import format_duration
from dedupe_local.errors import TopicUnusable

_FOR_EVER_MS = -1
_LARGEST_LONG = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A topic as the cluster describes it; `config` has Kafka's names and texts."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def number(self, config: str) -> int:
        """Return a setting that is a whole number."""
        return int(self.config[config])


def config_for(source: Topic, max_age: timedelta) -> dict[str, str]:
    """Return the settings of a new output topic for the input `source`.

    It keeps records at least as long as ids are remembered (`max_age`), for a lost store is rebuilt
    from it; and it takes every record that the input took, with the timestamp it has.
    """
    retention_ms = source.number("retention.ms")
    if retention_ms != _FOR_EVER_MS:
        retention_ms = max(retention_ms, _milliseconds(max_age))
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "max.message.bytes": source.config["max.message.bytes"],
        "min.insync.replicas": source.config["min.insync.replicas"],
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": str(_LARGEST_LONG),
        "message.timestamp.after.max.ms": str(_LARGEST_LONG),
    }


def check(source: Topic, output: Topic, max_age: timedelta) -> list[str]:
    """Return warnings about an output topic that is there already.

    Raises:
        TopicUnusable: messages would be lost or altered in it.
    """
    _refuse_fewer_partitions(source, output)
    if "compact" in output.config["cleanup.policy"]:
        raise TopicUnusable(
            f"Output topic {output.name} is compacted, so Kafka itself would remove messages that "
            "are no duplicates: set its cleanup.policy to delete, or name another topic in "
            "spec.output.topic."
        )
    if output.config["message.timestamp.type"] != "CreateTime":
        raise TopicUnusable(
            f"Output topic {output.name} replaces the timestamps of messages: set its "
            "message.timestamp.type to CreateTime, or name another topic in spec.output.topic."
        )
    return [*_short_retention(output, max_age), *_smaller_messages(source, output)]


def _refuse_fewer_partitions(source: Topic, output: Topic) -> None:
    if output.partitions < source.partitions:
        raise TopicUnusable(
            f"Output topic {output.name} has {output.partitions} partitions, and input topic "
            f"{source.name} has {source.partitions}: partition p of one belongs to partition p of "
            f"the other. Raise the output's partition count to {source.partitions}, or name "
            "another topic in spec.output.topic."
        )


def _short_retention(output: Topic, max_age: timedelta) -> list[str]:
    retention_ms = output.number("retention.ms")
    if retention_ms == _FOR_EVER_MS or retention_ms >= _milliseconds(max_age):
        return []
    kept = format_duration(timedelta(milliseconds=retention_ms))
    return [
        f"Output topic {output.name} keeps messages for {kept}, less than spec.store.window.maxAge "
        f"({format_duration(max_age)}): a store that is lost can be rebuilt for {kept} only. Raise "
        f"its retention.ms to {_milliseconds(max_age)}, or lower maxAge."
    ]


def _smaller_messages(source: Topic, output: Topic) -> list[str]:
    name = "max.message.bytes"
    if output.number(name) >= source.number(name):
        return []
    return [
        f"Output topic {output.name} takes messages of {output.config[name]} bytes, and input "
        f"topic {source.name} of {source.config[name]}: a partition stops at one that is too "
        f"large. Raise the output's {name} to {source.config[name]}."
    ]


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
