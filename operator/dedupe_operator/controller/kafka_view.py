"""Gather what is known of a stream's Kafka: credentials, topics, growth.

The reconciler calls it once a pass, and keeps one `KafkaWatches` for each stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.stream import StreamStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.controller.context import direct_input, known_partitions, served_partitions
from dedupe_operator.controller.observe import Observed
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import CredentialsUnusable, secret_data, secret_hash
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.growth import GrowthView
from dedupe_operator.growth_watch import GrowthWatch
from dedupe_operator.input_watch import InputWatch
from dedupe_operator.kafka_access import KafkaAccess
from dedupe_operator.kafka_asks import KafkaAsks
from dedupe_operator.output_conflicts import OutputConflicts
from dedupe_operator.topic_watch import PartitionStates, TopicsView, TopicWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaView:
    """The state of Kafka for one pass, and the Secret to ask it with.

    `secrets_hash` is None if the Kafka credentials can't be read.
    """

    secret: Mapping[str, bytes] = field(repr=False)
    secrets_hash: str | None
    topics: TopicsView
    growth: GrowthView | None

    @property
    def problems(self) -> list[Problem]:
        """Return the problems of topics and growth."""
        of_growth = self.growth.problem if self.growth else None
        return [*self.topics.problems, *([of_growth] if of_growth else [])]


class KafkaWatches:
    """Answers of one stream's Kafka. They may be lost."""

    def __init__(self, asks: KafkaAsks) -> None:
        self.topics = TopicWatch(asks)
        self.states = PartitionStates(asks)
        self.growth = GrowthWatch(asks)

    def drop(self) -> None:
        """Ask no longer."""
        for watch in (self.topics, self.states, self.growth):
            watch.drop()


@dataclass(frozen=True, slots=True)
class KafkaViews:
    """Gathers the views of all streams."""

    inputs: InputWatch
    conflicts: OutputConflicts
    access: KafkaAccess

    def view(
        self,
        stream: DedupeStream,
        recorded: StreamStatus,
        observed: Observed,
        workers: Mapping[int, WorkerStatus | None],
        *,
        admin_token: str,
        watches: KafkaWatches,
        again: bool,
    ) -> KafkaView:
        """Return what is known now. Raises AnswerPending without an answer it needs."""
        key = Key(stream.metadata.namespace, stream.metadata.name)
        known = known_partitions(recorded, observed)
        seen = served_partitions(observed)
        secret: Mapping[str, bytes] = {}
        secrets_hash: str | None = None
        counted: Mapping[str, int] = {}
        try:
            given = secret_data(stream, observed.kafka_secret)
            self.access.hold(stream, given)
        except CredentialsUnusable as error:
            topics = TopicsView(problems=(error.problem,))
        else:
            secret = given
            secrets_hash = secret_hash(secret, admin_token.encode())[:16]
            counted = self.inputs.counts(key, stream, secret)
            topics = watches.topics.get(stream, secret, known=known, seen=seen, counted=counted)
        conflict = self.conflicts.find(stream, held=topics.held, routed=topics.routed)
        blocked = conflict is not None and conflict.blocks
        if conflict:
            topics = replace(topics, problems=(conflict.problem, *topics.problems))
        if blocked:
            topics = replace(topics, usable=False, held={})
        growth = watches.growth.get(
            stream,
            secret,
            # The epoch log of an output that is another stream's as well is left alone.
            TopicsView() if blocked else topics,
            known=known,
            workers=workers,
            counted=counted,
            direct=direct_input(stream, observed),
            again=again,
        )
        return KafkaView(secret=secret, secrets_hash=secrets_hash, topics=topics, growth=growth)

    def forget(self, key: Key) -> None:
        """Forget a deleted stream."""
        self.inputs.forget(key)
        self.conflicts.forget(key)
        self.access.forget(key)
