"""The topic of the epoch log: its name, settings and problems."""

from collections.abc import Iterator
from typing import Final, Protocol

from dedupe_crds.spec.topic_names import EPOCHS_SUFFIX
from dedupe_kafka.errors import NotAuthorized
from dedupe_kafka.offsets import TopicOffsets
from dedupe_kafka.stream_topics import Topics
from dedupe_kafka.topic import REPLICAS, Topic, TopicProblem, less_safe

_CLEANUP: Final = "cleanup.policy"
_COMPACT: Final = "compact"


def epochs_topic(output: str) -> str:
    """Return the name of the epoch log of an output topic.

    >>> epochs_topic("orders-clean")
    'orders-clean-epochs'
    """
    return f"{output}{EPOCHS_SUFFIX}"


def ensure_epochs(cluster: Topics, output: str, source: Topic) -> list[TopicProblem]:
    """Create the epoch log, as safe as the inputs, or return its problems."""
    name = epochs_topic(output)
    if (found := cluster.topic(name)) is None:
        config = {_CLEANUP: _COMPACT, REPLICAS: source.config[REPLICAS]}
        created = cluster.create(name, 1, source.replication_factor, config)
        found = cluster.wait_for(name)
        if created:
            return []
    return [*_problems(found), *less_safe("EpochLog", source, found)]


class FilledTopics(Protocol):
    """The part of `Cluster` that says what a topic has."""

    def topic(self, name: str) -> Topic | None: ...  # noqa: D102
    def offsets(self, name: str) -> TopicOffsets: ...  # noqa: D102


def check_unused(cluster: FilledTopics, output: str) -> list[TopicProblem]:
    """Return the problem of a stream without routers whose output has an epoch log.

    Its routers know up to where inputs are read; workers that read them would begin elsewhere. Without the right to
    describe the log nothing is known of it.
    """
    name = epochs_topic(output)
    try:
        used = cluster.topic(name) is not None and any(cluster.offsets(name).ends.values())
    except NotAuthorized:
        return []
    if not used:
        return []
    return [
        TopicProblem(
            reason="OutputHasRouters",
            message=f"Topic {name} shows that routers write to this output, and the manifest has no spec.repartition: "
            "put it back. If they were another stream's, which is gone, delete that topic.",
            fatal=True,
        )
    ]


def _problems(topic: Topic) -> Iterator[TopicProblem]:
    if topic.config[_CLEANUP] != _COMPACT or topic.partitions != 1:
        yield TopicProblem(
            reason="EpochLogExpires",
            message=f"Topic {topic.name} must have 1 partition and the cleanup.policy compact: it has "
            f"{topic.partitions} and {topic.config[_CLEANUP]}, so entries may be lost, and with them how many "
            "partitions the stream has.",
            fatal=True,
        )
