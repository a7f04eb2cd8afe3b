"""Topics of a stream with routers, from the repartition topic on.

`Cluster.ensure_output` calls it. Invariant: the repartition topic keeps each record until the worker of its partition
has read it, whatever the record's timestamp is; the workers delete what they have committed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from dedupe_crds.spec.repartition import Repartition
from dedupe_crds.spec.stream import Spec
from dedupe_kafka.epochs_topic import ensure_epochs
from dedupe_kafka.input_topics import of_other_streams
from dedupe_kafka.stream_topics import StreamTopics, Topics, ensure_topics, grown
from dedupe_kafka.topic import (
    FOR_EVER_MS,
    MOST_AHEAD,
    REPLICAS,
    Topic,
    TopicProblem,
    check_input,
    lasting_config,
    less_safe,
    refused_timestamps,
)

# By how much the origin header makes a record larger at most: a name of 13 bytes, a value of 9 and a topic's name,
# which has 249 at most, and some bytes more in the lengths of header, record and batch.
HEADER_ALLOWANCE_BYTES: Final = 512

_FOR_EVER: Final = str(FOR_EVER_MS)
_SEGMENT_BYTES: Final = 50 << 20
_BROKERS_DEFAULT: Final = -1
# Of topics, if the brokers are not configured otherwise.
_KAFKAS_RETENTION_MS: Final = 7 * 24 * 3_600_000
_BYTES: Final = "max.message.bytes"
_RETENTION: Final = "retention.ms"


def ensure_repartitioned(
    cluster: Topics, spec: Spec, repartition: Repartition, inputs: Sequence[Topic]
) -> StreamTopics:
    """Create the missing topics of a stream with routers, and check the others.

    Topics with fewer partitions than the manifest asks for get more: so a growth begins. Settings of the output follow
    from the inputs, not from the repartition topic, which keeps its records for ever and accepts larger ones.
    """
    name, partitions = spec.worker_input, repartition.partitions
    problems, created = [problem for each in inputs for problem in check_input(each)], False
    problems += of_other_streams(cluster.topic, inputs)
    if inputs:
        source = merged(inputs, name, partitions)
    else:
        problems.append(_no_input(spec))
        source, created = _without_inputs(cluster, spec, name, partitions)
    present = cluster.topic(name)
    grows = present is None or present.partitions < partitions
    # Before the repartition topic, which shows after a crash that the others may not have grown yet.
    found = ensure_topics(cluster, spec, source, known=0, grows=grows)
    problems += ensure_repartition(cluster, source)
    problems += ensure_epochs(cluster, spec.output.topic, source)
    return replace(found, created=found.created or created).with_problems(problems)


def merged(inputs: Sequence[Topic], name: str, partitions: int) -> Topic:
    """Return the inputs as one topic, from which the settings of the others follow.

    Its records may be of any of them: it accepts the largest, keeps them for the longest time, and is as safe as the
    safest.
    """
    retentions = [topic.number(_RETENTION) for topic in inputs]
    copies = max(topic.replication_factor for topic in inputs)
    in_sync = max(topic.number(REPLICAS) for topic in inputs)
    return Topic(
        name=name,
        partitions=partitions,
        replication_factor=copies,
        config={
            _BYTES: str(max(topic.number(_BYTES) for topic in inputs)),
            REPLICAS: str(min(in_sync, copies)),
            MOST_AHEAD: str(max(topic.most_ahead_ms for topic in inputs)),
            _RETENTION: str(FOR_EVER_MS if FOR_EVER_MS in retentions else max(retentions)),
        },
    )


def ensure_repartition(cluster: Topics, source: Topic) -> list[TopicProblem]:
    """Create the repartition topic of the merged inputs, or return its problems."""
    if (found := cluster.topic(source.name)) is None:
        config = repartition_config(source)
        created = cluster.create(source.name, source.partitions, source.replication_factor, config)
        found = cluster.wait_for(source.name)
        if created:
            return []
    return list(check_repartition(source, grown(cluster, found, source.partitions)))


def repartition_config(source: Topic) -> dict[str, str]:
    """Return the settings of a new repartition topic for the merged inputs."""
    largest = source.number(_BYTES) + HEADER_ALLOWANCE_BYTES
    return {
        **lasting_config(FOR_EVER_MS),
        _BYTES: str(largest),
        # What workers have read leaves the disk by whole segments, which must hold the largest record.
        "segment.bytes": str(max(_SEGMENT_BYTES, largest)),
        REPLICAS: source.config[REPLICAS],
    }


def check_repartition(source: Topic, topic: Topic) -> Iterator[TopicProblem]:
    """Yield the problems of an existing repartition topic, fatal ones first."""
    yield from _wrong_partitions(source, topic)
    if "compact" in topic.config["cleanup.policy"]:
        yield _fatal(
            "RepartitionTopicCompacted",
            f"Repartition topic {topic.name} is compacted, so Kafka would remove records that no worker has read: set "
            "its cleanup.policy to delete.",
        )
    if topic.config[_RETENTION] != _FOR_EVER or topic.config["retention.bytes"] != _FOR_EVER:
        yield _fatal(
            "RepartitionTopicExpires",
            f"Repartition topic {topic.name} deletes records that a stopped worker has not read: set its retention.ms "
            "and its retention.bytes to -1. The workers delete what they have read.",
        )
    if topic.config["message.timestamp.type"] != "CreateTime":
        yield _fatal(
            "RepartitionTopicReplacesTimestamps",
            f"Repartition topic {topic.name} replaces the timestamps of messages: set its message.timestamp.type to "
            "CreateTime.",
        )
    needed = source.number(_BYTES) + HEADER_ALLOWANCE_BYTES
    if topic.number(_BYTES) < needed:
        yield TopicProblem(
            reason="RepartitionMessagesTooSmall",
            message=f"Repartition topic {topic.name} accepts messages of {topic.config[_BYTES]} bytes, and an input "
            f"messages of {source.config[_BYTES]}, to which a header is added: an input partition stops at a "
            f"message that is too large. Raise the max.message.bytes of {topic.name} to {needed}.",
            fatal=False,
        )
    yield from less_safe("RepartitionTopic", source, topic)
    yield from refused_timestamps("RepartitionTopic", source, topic)


def _wrong_partitions(source: Topic, topic: Topic) -> Iterator[TopicProblem]:
    if topic.partitions < source.partitions:
        yield _fatal(
            "RepartitionTopicTooFewPartitions",
            f"Repartition topic {topic.name} has {topic.partitions} partitions, and spec.repartition.partitions is "
            f"{source.partitions}: grant the ACL ALTER on it and on the stream's other topics, or add the partitions.",
        )
    elif topic.partitions > source.partitions:
        yield _fatal(
            "RepartitionTopicWrongPartitions",
            f"Repartition topic {topic.name} has {topic.partitions} partitions, and spec.repartition.partitions is "
            f"{source.partitions}: partitions can't be removed. Create the stream with partitions: {topic.partitions}, "
            "or with another name in spec.repartition.topic.name.",
        )


def _no_input(spec: Spec) -> TopicProblem:
    return TopicProblem(
        reason="NoInputTopic",
        message=f"No topic matches spec.input.pattern {spec.input.shown}, so the stream waits for one: create it, "
        "grant the ACL DESCRIBE on it, or correct the pattern.",
        fatal=False,
    )


def _without_inputs(cluster: Topics, spec: Spec, name: str, partitions: int) -> tuple[Topic, bool]:
    """Return a stand-in for the inputs, and whether the output was created.

    That is the output, which is created first: only a topic without these settings shows which sizes the brokers give
    to new topics, the later inputs among them.
    """
    output, created = cluster.topic(spec.output.topic), False
    if output is None:
        # How long the inputs will keep their records is not known: as long as the window, and as topics usually do.
        config = lasting_config(_KAFKAS_RETENTION_MS, spec.store.window.max_age)
        created = cluster.create(spec.output.topic, partitions, _BROKERS_DEFAULT, config)
        output = cluster.wait_for(spec.output.topic)
    return merged([output], name, partitions), created


def _fatal(reason: str, message: str) -> TopicProblem:
    return TopicProblem(reason=reason, message=message, fatal=True)
