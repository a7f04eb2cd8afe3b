"""The Kafka cluster of a stream, without Kafka."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import PartitionState
from dedupe_kafka.stream_topics import StreamTopics
from dedupe_kafka.topic import TopicProblem

_STATE = PartitionState(input_topic_id="in", output_topic_id="out", low=0, end=1000)


@dataclass
class FakeKafka:
    """Stands in for `dedupe_kafka.cluster.Cluster`, and remembers each question and what it came with."""

    partitions: int = 2
    lag: int = 1234
    problems: tuple[TopicProblem, ...] = ()
    created: bool = True
    fails: StreamError | None = None
    state: PartitionState = _STATE
    read_only: frozenset[str] = frozenset()
    connected: tuple[str, dict[str, str]] = ("", {})
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __call__(
        self, servers: str, properties: Mapping[str, str], *, timeout_seconds: float
    ) -> "FakeKafka":
        """Connect."""
        assert timeout_seconds > 0
        bounds = {"receive.message.max.bytes", "fetch.max.bytes"}
        assert bounds <= properties.keys()
        given = {name: properties[name] for name in properties.keys() - bounds}
        self.connected = servers, given
        return self

    def partition_state(self, stream: DedupeStream, partition: int) -> PartitionState:
        assert stream.spec.output.topic
        repartition = stream.spec.repartition
        assert 0 <= partition < (repartition.partitions if repartition else self.partitions)
        if self.fails:
            raise self.fails
        return self.state

    def ensure_output(self, stream: DedupeStream, known: int = 0, *, seen: int = 0) -> StreamTopics:
        self.asked.append(self.connected)
        assert stream.spec.output.topic
        if self.fails:
            raise self.fails
        created, self.created = self.created, False
        if repartition := stream.spec.repartition:
            count = repartition.partitions
            return StreamTopics(
                partitions=count, served=count, problems=self.problems, created=created
            )
        accepts = stream.spec.input.accepts_added
        return StreamTopics(
            partitions=self.partitions,
            served=self.partitions
            if accepts
            else min(self.partitions, known or seen or self.partitions),
            problems=self.problems,
            created=created,
        )

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(names, self.partitions)

    def topic_ids(self, names: Collection[str], *, writable: bool = False) -> dict[str, str]:
        hidden = self.read_only if writable else ()
        return {name: f"id-of-{name}" for name in names if name not in hidden}

    def topic_names(self) -> list[str]:
        return []

    def unread(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        assert topic
        return dict.fromkeys(partitions, self.lag)
