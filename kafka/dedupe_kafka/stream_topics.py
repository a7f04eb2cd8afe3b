"""The topics of one stream: create the missing ones, check the others.

`Cluster.ensure_output` calls it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from dedupe_crds.spec.stream import Spec
from dedupe_kafka.errors import NotAuthorized
from dedupe_kafka.side_topics import (
    check_metadata,
    check_routed,
    metadata_config,
    metadata_topics,
    routed_config,
    routed_topics,
)
from dedupe_kafka.topic import Topic, TopicProblem, check, config_for

_Check = Callable[[Topic, Topic], Iterator[TopicProblem]]
"""Checks a side topic; its arguments are the output and the side topic."""


@dataclass(frozen=True, kw_only=True)
class StreamTopics:
    """The state of a stream's topics.

    `partitions` is the input's partition count, `served` the number of partitions for which workers may run: those
    behind wait. `problems` are those of the output and the side topics. `created`: the output topic did not exist and
    was created.
    """

    partitions: int
    served: int
    problems: tuple[TopicProblem, ...]
    created: bool

    def with_problems(self, problems: Sequence[TopicProblem]) -> "StreamTopics":
        """Return it with more problems, fatal ones first."""
        all_problems = sorted((*problems, *self.problems), key=lambda problem: not problem.fatal)
        return replace(self, problems=tuple(all_problems))


class Topics(Protocol):
    """The part of `Cluster` that this needs."""

    def topic(self, name: str) -> Topic | None: ...  # noqa: D102
    def wait_for(self, name: str) -> Topic: ...  # noqa: D102
    def grow(self, name: str, partitions: int) -> None: ...  # noqa: D102
    def create(  # noqa: D102
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> bool: ...


def ensure_topics(
    cluster: Topics, spec: Spec, source: Topic, known: int, *, grows: bool = False
) -> StreamTopics:
    """Create the output and side topics that are missing, and check the existing ones.

    `source` is the input, `known` the number of its partitions that have had workers, 0 for a new stream. With `grows`
    the others get as many partitions.
    """
    partitions = source.partitions
    accepts = spec.input.accepts_added
    if known and not accepts:
        source = replace(source, partitions=min(known, partitions))
    grows = grows or (accepts and 0 < known < partitions)
    stream = _Ensured(cluster, spec, source, grows=grows)
    created, problems = stream.ensure()
    return StreamTopics(
        partitions=partitions,
        served=source.partitions,
        problems=tuple(sorted(problems, key=lambda problem: not problem.fatal)),
        created=created,
    )


@dataclass(frozen=True, slots=True)
class _Ensured:
    """The other topics of an input; `grows`: they get as many partitions."""

    cluster: Topics
    spec: Spec
    source: Topic
    grows: bool

    def ensure(self) -> tuple[bool, list[TopicProblem]]:
        """Return whether the output was created, and all problems."""
        max_age = self.spec.store.window.max_age
        name, source = self.spec.output.topic, self.source
        created = False
        if (output := self.cluster.topic(name)) is None:
            config = config_for(source, max_age)
            created = self.cluster.create(
                name, source.partitions, source.replication_factor, config
            )
            output = self.cluster.wait_for(name)
        else:
            output = self._grown(output)
        problems = [] if created else check(source, output, max_age)
        return created, [*problems, *self._side_topics(output)]

    def _side_topics(self, output: Topic) -> Iterator[TopicProblem]:
        for name in routed_topics(self.spec):
            config = routed_config(self.source)
            yield from self._side_topic(name, output, config, partial(check_routed, self.source))
        for name in metadata_topics(self.spec):
            yield from self._side_topic(name, output, metadata_config(output), check_metadata)

    def _side_topic(
        self, name: str, output: Topic, config: Mapping[str, str], problems: _Check
    ) -> Iterator[TopicProblem]:
        if (found := self.cluster.topic(name)) is not None:
            yield from problems(output, self._grown(found))
        elif self.cluster.create(name, output.partitions, output.replication_factor, config):
            self.cluster.wait_for(name)

    def _grown(self, topic: Topic) -> Topic:
        """Return the topic with as many partitions as the input, if it may get them."""
        return grown(self.cluster, topic, self.source.partitions) if self.grows else topic


def grown(cluster: Topics, topic: Topic, partitions: int) -> Topic:
    """Return the topic with at least so many partitions, if it may get them."""
    if topic.partitions >= partitions:
        return topic
    try:
        cluster.grow(topic.name, partitions)
    except NotAuthorized:
        return topic  # then that it has too few is a problem for a user
    return replace(topic, partitions=partitions)
