"""The topic of the epoch log: its name, settings and problems."""

from collections.abc import Iterator
from typing import Final

from dedupe_crds.spec.topic_names import EPOCHS_SUFFIX
from dedupe_kafka.stream_topics import Topics
from dedupe_kafka.topic import Topic, TopicProblem

_CLEANUP: Final = "cleanup.policy"
_REPLICAS: Final = "min.insync.replicas"
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
        config = {_CLEANUP: _COMPACT, _REPLICAS: source.config[_REPLICAS]}
        created = cluster.create(name, 1, source.replication_factor, config)
        found = cluster.wait_for(name)
        if created:
            return []
    return list(_problems(found))


def _problems(topic: Topic) -> Iterator[TopicProblem]:
    if topic.config[_CLEANUP] != _COMPACT or topic.partitions != 1:
        yield TopicProblem(
            reason="EpochLogExpires",
            message=f"Topic {topic.name} must have 1 partition and the cleanup.policy compact: it has "
            f"{topic.partitions} and {topic.config[_CLEANUP]}, so entries may be lost, and with them how many "
            "partitions the stream has.",
            fatal=True,
        )
