"""Settings of the topic between routers and workers, and its problems.

`Cluster.ensure_output` calls it. Invariant: the topic keeps each record until the worker of its partition has read it,
whatever the record's timestamp is; the workers delete what they have committed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from dedupe_crds.spec.stream import Spec
from dedupe_kafka.stream_topics import Topics
from dedupe_kafka.topic import Topic, TopicProblem

# By how much the origin header makes a record larger at most: a name of 13 bytes, a value of 9 and a topic's name,
# which has 249 at most, and some bytes more in the lengths of header, record and batch.
HEADER_ALLOWANCE_BYTES: Final = 512

_FOR_EVER: Final = "-1"
_LARGEST_LONG: Final = str(2**63 - 1)
_BYTES: Final = "max.message.bytes"
_REPLICAS: Final = "min.insync.replicas"
_RETENTION: Final = "retention.ms"


def merged(inputs: Sequence[Topic], name: str, partitions: int) -> Topic:
    """Return the inputs as one topic, from which the settings of the others follow.

    Its records may be of any of them: it accepts the largest, and keeps them for the longest time.
    """
    retentions = [topic.number(_RETENTION) for topic in inputs]
    return Topic(
        name=name,
        partitions=partitions,
        replication_factor=max(topic.replication_factor for topic in inputs),
        config={
            _BYTES: str(max(topic.number(_BYTES) for topic in inputs)),
            _REPLICAS: str(max(topic.number(_REPLICAS) for topic in inputs)),
            _RETENTION: str(-1 if -1 in retentions else max(retentions)),
        },
    )


def ensure_repartition(cluster: Topics, spec: Spec, source: Topic) -> list[TopicProblem]:
    """Create the repartition topic of the merged inputs, or return its problems."""
    name = spec.worker_input
    if (found := cluster.topic(name)) is not None:
        return list(check_repartition(spec, source, found))
    config = repartition_config(source)
    cluster.create(name, source.partitions, source.replication_factor, config)
    cluster.wait_for(name)
    return []


def repartition_config(source: Topic) -> dict[str, str]:
    """Return the settings of a new repartition topic for the merged inputs."""
    return {
        "cleanup.policy": "delete",
        _RETENTION: _FOR_EVER,
        "retention.bytes": _FOR_EVER,
        _BYTES: str(source.number(_BYTES) + HEADER_ALLOWANCE_BYTES),
        _REPLICAS: source.config[_REPLICAS],
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": _LARGEST_LONG,
        "message.timestamp.after.max.ms": _LARGEST_LONG,
    }


def check_repartition(spec: Spec, source: Topic, topic: Topic) -> Iterator[TopicProblem]:
    """Yield the problems of an existing repartition topic, fatal ones first."""
    yield from _other_count(spec, topic)
    if "compact" in topic.config["cleanup.policy"]:
        yield _problem(
            "RepartitionTopicCompacted",
            f"Repartition topic {topic.name} is compacted, so Kafka would remove records that no worker has read: set "
            "its cleanup.policy to delete.",
        )
    if topic.config[_RETENTION] != _FOR_EVER or topic.config["retention.bytes"] != _FOR_EVER:
        yield _problem(
            "RepartitionTopicExpires",
            f"Repartition topic {topic.name} deletes records that a stopped worker has not read: set its retention.ms "
            "and its retention.bytes to -1. The workers delete what they have read.",
        )
    if topic.config["message.timestamp.type"] != "CreateTime":
        yield _problem(
            "RepartitionTopicReplacesTimestamps",
            f"Repartition topic {topic.name} replaces the timestamps of messages: set its message.timestamp.type to "
            "CreateTime.",
        )
    needed = source.number(_BYTES) + HEADER_ALLOWANCE_BYTES
    if topic.number(_BYTES) < needed:
        yield replace(
            _problem(
                "RepartitionMessagesTooSmall",
                f"Repartition topic {topic.name} accepts messages of {topic.config[_BYTES]} bytes, and an input "
                f"messages of {source.config[_BYTES]}, to which a header is added: an input partition stops at a "
                f"message that is too large. Raise the max.message.bytes of {topic.name} to {needed}.",
            ),
            fatal=False,
        )


def _other_count(spec: Spec, topic: Topic) -> Iterator[TopicProblem]:
    wanted = spec.repartition.partitions if spec.repartition else topic.partitions
    if topic.partitions != wanted:
        yield _problem(
            "RepartitionTopicOtherCount",
            f"Repartition topic {topic.name} has {topic.partitions} partitions, and spec.repartition.partitions is "
            f"{wanted}: ids are known in the partitions of the first count. Set partitions to {topic.partitions}, or "
            "create another stream.",
        )


def _problem(reason: str, message: str) -> TopicProblem:
    return TopicProblem(reason=reason, message=message, fatal=True)
