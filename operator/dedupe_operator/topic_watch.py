"""Watch a stream's topics: partition count, and whether output is usable.

The reconciler keeps one `TopicWatch` for each stream. Answers are cached, so Kafka gets few requests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import PartitionState
from dedupe_operator.credentials import client_properties, secret_hash
from dedupe_operator.decide.diagnosis import Problem

_TIMEOUT_SECONDS: Final = 10.0
_REFRESH_SECONDS: Final = 60.0
_FIRST_RETRY_SECONDS: Final = 3.0
_LONGEST_RETRY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsView:
    """A stream's topics as last observed.

    `partitions` is the partition count of what the workers read, None while Kafka has not answered. `added` are those
    that were added to the input and wait, each with its lag. `created`: the output topic was created by this request.
    `usable`: a worker that starts now loses and alters no message.
    """

    partitions: int | None = None
    added: Mapping[int, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    created: bool = False
    usable: bool = False


@dataclass(frozen=True, slots=True)
class _Cached:
    view: TopicsView
    fingerprint: str
    again_at: float
    failures: int


@dataclass(slots=True)
class TopicWatch:
    """Cached topic check of one stream, with back-off while Kafka does not answer."""

    clock: Callable[[], float]
    _cached: _Cached | None = field(default=None, init=False)

    def get(
        self,
        stream: DedupeStream,
        secret: Mapping[str, bytes],
        *,
        known: int = 0,
        seen: int = 0,
        counted: Mapping[str, int] | None = None,
    ) -> TopicsView:
        """Return the topics, cached if fresh. Creates an absent output topic.

        `known` and `seen` are numbers of partitions, as in `Cluster.ensure_output`. `counted` has the partition counts
        of the inputs as last counted: another one than the cached, of what the workers read, is a reason to ask.
        """
        count = (counted or {}).get(stream.spec.worker_input)
        fingerprint = secret_hash(secret, stream.spec.model_dump_json().encode())
        cached = self._cached
        fresh = cached and cached.fingerprint == fingerprint and self.clock() < cached.again_at
        if cached and fresh and count in {None, cached.view.partitions}:
            return cached.view
        view = _ask(stream, secret, known, seen)
        failures = 0 if view.partitions is not None else (cached.failures if cached else 0) + 1
        wait = _REFRESH_SECONDS
        if view.problems:
            doubled = _FIRST_RETRY_SECONDS * 2.0 ** min(failures, 10)
            wait = min(_LONGEST_RETRY_SECONDS, doubled)
        self._cached = _Cached(view, fingerprint, self.clock() + wait, failures)
        return view


def _ask(stream: DedupeStream, secret: Mapping[str, bytes], known: int, seen: int) -> TopicsView:
    try:
        with client_properties(secret) as properties:
            servers = stream.spec.kafka.bootstrap_servers
            cluster = Cluster(servers, properties, timeout_seconds=_TIMEOUT_SECONDS)
            found = cluster.ensure_output(stream, known, seen=seen)
            added = range(found.served, found.partitions)
            lags = cluster.unread(stream.spec.worker_input, added) if added else {}
    except StreamError as error:
        return TopicsView(problems=(Problem(reason=error.reason, message=str(error)),))
    return TopicsView(
        partitions=found.partitions,
        added=lags,
        problems=tuple(
            Problem(reason=problem.reason, message=problem.message) for problem in found.problems
        ),
        created=found.created,
        usable=not any(problem.fatal for problem in found.problems),
    )


def partition_state(
    stream: DedupeStream, secret: Mapping[str, bytes], partition: int
) -> PartitionState:
    """Return the topics' state, by which copies of a partition are judged.

    Raises StreamError.
    """
    with client_properties(secret) as properties:
        servers = stream.spec.kafka.bootstrap_servers
        cluster = Cluster(servers, properties, timeout_seconds=_TIMEOUT_SECONDS)
        return cluster.partition_state(stream, partition)
