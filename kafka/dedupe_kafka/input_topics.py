"""Find the input topics of a stream: named ones, or those of a pattern."""

import re
from collections.abc import Iterable
from typing import Final, Protocol

from dedupe_crds.spec.flow import Flow
from dedupe_kafka.errors import TopicMissing
from dedupe_kafka.side_topics import filters_topic, owners_topic
from dedupe_kafka.topic import Topic

_INTERNAL: Final = "__"


class Topics(Protocol):
    """The part of `Cluster` that this needs."""

    def topic(self, name: str) -> Topic | None: ...  # noqa: D102
    def topic_names(self) -> list[str]: ...  # noqa: D102


def input_topics(cluster: Topics, spec: Flow, servers: str) -> list[Topic]:
    """Return the input topics. Raises TopicMissing, which names those that are absent."""
    names = spec.input.names or matching_topics(cluster.topic_names(), spec)
    if not names:
        raise TopicMissing(
            f"No topic on {servers} matches spec.input.pattern {spec.input.shown}: create one, or correct the pattern."
        )
    found = {name: cluster.topic(name) for name in names}
    if missing := [name for name, topic in found.items() if topic is None]:
        raise TopicMissing(
            f"Input topic {', '.join(missing)} does not exist on {servers}: create it, or correct spec.input."
        )
    return [topic for topic in found.values() if topic is not None]


def matching_topics(names: Iterable[str], spec: Flow) -> list[str]:
    """Return those of the topics that `spec.input.pattern` matches as a whole, sorted.

    Kafka's own topics, and all other topics of the stream, are none of them: a router would read what it wrote.
    """
    pattern = re.compile(spec.input.pattern or "(?!)")
    output = spec.output.topic
    routed = (spec.duplicates.topic, spec.conflicts.topic, spec.late.topic)
    own = {output, spec.worker_input, filters_topic(output), owners_topic(output), *routed}
    own.add(f"{output}-epochs")
    return sorted(
        name
        for name in set(names)
        if name not in own and not name.startswith(_INTERNAL) and pattern.fullmatch(name)
    )
