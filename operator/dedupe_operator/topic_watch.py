"""Watch a stream's topics: partition count, and whether output is usable.

The reconciler keeps one `TopicWatch` and one `PartitionStates` for each stream. Answers are kept, so Kafka gets few
requests. Without an answer to keep, the pass ends, and another follows the answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from dedupe_crds.spec.repartition import MOST_PARTITIONS
from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import PartitionState
from dedupe_kafka.side_topics import routed_topics
from dedupe_operator.credentials import secret_hash
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.kafka_problems import is_silence, problem_of
from dedupe_operator.errors import ReportedError
from dedupe_operator.kafka_asks import Connection, KafkaAsks, Pending

_REFRESH_SECONDS: Final = 60.0
_FIRST_RETRY_SECONDS: Final = 3.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_LONGEST_SILENCE_SECONDS: Final = 15.0  # silent clusters are asked more rarely by their lane
_STATES_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsView:
    """A stream's topics as last observed.

    `partitions` is the partition count of what the workers read, None while Kafka has not answered. `added` are those
    that were added to the input and wait, each with its lag. `created`: the output topic was created by this request.
    `usable`: a worker that starts now loses and alters no message. `held` has the UUIDs of the topics that the stream
    must have alone and may write to, `routed` those of its side topics.
    """

    partitions: int | None = None
    added: Mapping[int, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    created: bool = False
    usable: bool = False
    held: Mapping[str, str] = field(default_factory=dict)
    routed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Cached:
    view: TopicsView
    fingerprint: str
    again_at: float
    failures: int


@dataclass(slots=True)
class TopicWatch:
    """The topics of one stream, with back-off while they can't be described."""

    asks: KafkaAsks
    _cached: _Cached | None = field(default=None, init=False)
    _pending: Pending[TopicsView] = field(default_factory=Pending, init=False)

    def get(
        self,
        stream: DedupeStream,
        secret: Mapping[str, bytes],
        *,
        known: int = 0,
        seen: int = 0,
        counted: Mapping[str, int] | None = None,
    ) -> TopicsView:
        """Return the topics as last observed; have an absent output topic created.

        `known` and `seen` are numbers of partitions, as in `Cluster.ensure_output`. `counted` has the partition counts
        of the inputs as last counted: another one than the cached, of what the workers read, is a reason to ask.

        Raises AnswerPending if there is no answer yet about this manifest and Secret.
        """
        count = (counted or {}).get(stream.spec.worker_input)
        fingerprint = secret_hash(secret, stream.spec.model_dump_json().encode())
        cached = self._cached
        if cached is not None and cached.fingerprint != fingerprint:
            cached = None
        fresh = cached and self.asks.clock() < cached.again_at
        if cached and fresh and count in {None, cached.view.partitions}:
            return cached.view
        question = partial(_ask, stream=stream, known=known, seen=seen)
        answer = self._pending.take(
            self.asks,
            fingerprint,
            lambda: self.asks.ask(stream, secret, question, known=cached.view if cached else None),
        )
        if answer is None:
            return cached.view if cached else TopicsView(problems=(self._pending.wait(self.asks),))
        try:
            view, failures = answer(), 0
        except StreamError as error:
            problem = problem_of(error, stream.spec.kafka.bootstrap_servers)
            view, failures = TopicsView(problems=(problem,)), (cached.failures if cached else 0) + 1
        wait = _REFRESH_SECONDS
        if view.problems:
            longest = _LONGEST_RETRY_SECONDS if view.partitions else _LONGEST_SILENCE_SECONDS
            wait = min(longest, _FIRST_RETRY_SECONDS * 2.0 ** min(failures, 10))
        self._cached = _Cached(view, fingerprint, self.asks.clock() + wait, failures)
        return view

    def drop(self) -> None:
        """Ask no longer."""
        self._pending.drop()


def _ask(connection: Connection, *, stream: DedupeStream, known: int, seen: int) -> TopicsView:
    cluster = connection.cluster
    found = cluster.ensure_output(stream, known, seen=seen)
    if found.partitions > MOST_PARTITIONS:
        message = (
            f"topic {stream.spec.worker_input} has {found.partitions} partitions, a stream at most {MOST_PARTITIONS}: "
            "use a topic with fewer, or spec.repartition with fewer"
        )
        raise ReportedError("TooManyPartitions", message)
    added = range(found.served, found.partitions)
    lags = cluster.unread(stream.spec.worker_input, added) if added else {}
    own = {stream.spec.output.topic}
    if stream.spec.repartition is not None:
        own.add(stream.spec.worker_input)
    return TopicsView(
        partitions=found.partitions,
        added=lags,
        problems=tuple(
            Problem(reason=problem.reason, message=problem.message) for problem in found.problems
        ),
        created=found.created,
        usable=not any(problem.fatal for problem in found.problems),
        held=cluster.topic_ids(own, writable=True),
        routed=cluster.topic_ids(routed_topics(stream.spec)),
    )


@dataclass(slots=True)
class PartitionStates:
    """The states of one stream's partitions, by which copies of them are judged."""

    asks: KafkaAsks
    _known: Mapping[int, PartitionState | Problem] = field(default_factory=dict, init=False)
    _about: str = field(default="", init=False)
    _until: float = field(default=0.0, init=False)
    _pending: Pending[Mapping[int, PartitionState | Problem]] = field(
        default_factory=Pending, init=False
    )

    def get(
        self,
        stream: DedupeStream,
        secret: Mapping[str, bytes],
        partition: int,
        partitions: Iterable[int],
        *,
        newest_copy: datetime | None = None,
    ) -> PartitionState:
        """Return the state of a partition; ask about all `partitions` at a time.

        `newest_copy` is when the newest copy was complete: a state from before that would show a copy as ahead of the
        output topic.

        Raises AnswerPending, and StreamError if Kafka does not tell.
        """
        wanted = sorted({partition, *partitions})
        manifest = f"{wanted} {newest_copy} {stream.spec.model_dump_json()}"
        about = secret_hash(secret, manifest.encode())
        if self.asks.clock() >= self._until or about != self._about:
            self._known, self._about = self._ask(stream, secret, wanted, about), about
            self._until = self.asks.clock() + _STATES_SECONDS
        known = self._known[partition]
        if isinstance(known, Problem):
            raise ReportedError(known.reason, known.message)
        return known

    def _ask(
        self, stream: DedupeStream, secret: Mapping[str, bytes], wanted: Sequence[int], about: str
    ) -> Mapping[int, PartitionState | Problem]:
        question = partial(_states, stream=stream, partitions=wanted)
        answer = self._pending.take(
            self.asks, about, lambda: self.asks.ask(stream, secret, question)
        )
        if answer is None:
            # Not kept, because the answer may come at any time.
            problem = self._pending.wait(self.asks)
            raise ReportedError(problem.reason, problem.message)
        try:
            return answer()
        except StreamError as error:
            return dict.fromkeys(wanted, problem_of(error, stream.spec.kafka.bootstrap_servers))

    def drop(self) -> None:
        """Ask no longer."""
        self._pending.drop()


def _states(
    connection: Connection, *, stream: DedupeStream, partitions: Iterable[int]
) -> dict[int, PartitionState | Problem]:
    """Return each partition's state, or why it is not known. Raises StreamError."""
    states: dict[int, PartitionState | Problem] = {}
    for partition in partitions:
        try:
            states[partition] = connection.cluster.partition_state(stream, partition)
        except StreamError as error:
            if is_silence(error):
                raise
            states[partition] = Problem(reason=error.reason, message=str(error))
    return states
