"""Find the input topics of a stream: named ones, or those of a pattern.

`Cluster`, the routers and the audit do. Invariant: no topic of the stream itself is among them, or it would read its
own records.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from dedupe_crds.names import topic_expression
from dedupe_crds.spec.flow import Flow
from dedupe_crds.spec.repartition import REPARTITION_SUFFIX
from dedupe_kafka.epochs_topic import epochs_topic
from dedupe_kafka.errors import TopicMissing
from dedupe_kafka.side_topics import filters_topic, owners_topic
from dedupe_kafka.topic import Topic, TopicProblem

_INTERNAL: Final = "__"
_KEPT: Final = (epochs_topic(""), filters_topic(""), owners_topic(""), REPARTITION_SUFFIX)


class Topics(Protocol):
    """The part of `Cluster` that this needs."""

    def topic(self, name: str) -> Topic | None: ...  # noqa: D102
    def topic_names(self) -> list[str]: ...  # noqa: D102


def input_topics(cluster: Topics, spec: Flow, servers: str) -> list[Topic]:
    """Return the input topics; none if no topic matches a pattern.

    Raises TopicMissing, with the names of all that are absent.
    """
    pattern = spec.input.pattern
    names = matching_topics(cluster.topic_names() if pattern is not None else (), spec)
    found = {name: cluster.topic(name) for name in names}
    missing = [name for name, topic in found.items() if topic is None]
    if missing and pattern is None:  # of a pattern one may be deleted after it was listed
        raise TopicMissing(_missing(missing, spec, servers))
    return [topic for topic in found.values() if topic is not None]


def matching_topics(names: Iterable[str], spec: Flow) -> list[str]:
    """Return the names of the input topics, sorted; `names` are the cluster's.

    Those that the manifest names are all returned, whether they exist or not. Of a pattern, which must match the whole
    name, Kafka's own topics and all topics of the stream are left out.
    """
    if spec.input.pattern is None:
        return sorted(spec.input.names)
    pattern, own = topic_expression(spec.input.pattern), _own_topics(spec)
    return sorted(
        name
        for name in set(names)
        if name not in own and not name.startswith(_INTERNAL) and pattern.fullmatch(name)
    )


def former_inputs(known: Iterable[str], spec: Flow) -> list[str]:
    """Return those of the known inputs that the manifest has no more, sorted."""
    names = set(known)
    return sorted(names.difference(matching_topics(names, spec)))


def of_other_streams(
    find: Callable[[str], Topic | None], inputs: Iterable[Topic]
) -> Iterator[TopicProblem]:
    """Yield the inputs whose names are those of another stream's own topics.

    Its output may be an input. `find` returns a topic, or None if it does not exist.
    """
    for name in sorted(topic.name for topic in inputs):
        output = next((name.removesuffix(end) for end in _KEPT if name.endswith(end)), "")
        if output and find(output) is not None:
            yield TopicProblem(
                reason="InputOfAnotherStream",
                message=f"Input topic {name} has the name of one that a stream with the output topic {output} keeps "
                "for itself. If it is, narrow spec.input.pattern so that it does not match: it holds no messages of "
                "users.",
                fatal=False,
            )


def _own_topics(spec: Flow) -> set[str | None]:
    output = spec.output.topic
    beside = {filters_topic(output), owners_topic(output), epochs_topic(output)}
    routed = {spec.duplicates.topic, spec.conflicts.topic, spec.late.topic}
    return {output, spec.worker_input, *beside, *routed}


def _missing(names: list[str], spec: Flow, servers: str) -> str:
    one = len(names) == 1
    field = "topic" if spec.input.topic is not None else "topics"
    return (
        f"Input topic{'' if one else 's'} {', '.join(names)} do{'es' if one else ''} not exist on {servers}: create "
        f"{'it' if one else 'them'}, or correct spec.input.{field}."
    )
