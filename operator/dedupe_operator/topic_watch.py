"""What the operator asks of Kafka: how many partitions, and whether the output topic will do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.cluster import Cluster, PartitionState
from dedupe_kafka.errors import StreamError
from dedupe_operator.credentials import CredentialsUnusable, client_properties
from dedupe_operator.decide.diagnosis import Problem

_TIMEOUT_SECONDS: Final = 10.0
_LOOK_EVERY_SECONDS: Final = 60.0
_FIRST_RETRY_SECONDS: Final = 3.0
_LONGEST_RETRY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsView:
    """A stream's topics as they were found. `partitions` is None while nobody could tell;
    `usable`: a worker that starts now loses and alters nothing."""

    partitions: int | None = None
    problems: tuple[Problem, ...] = ()
    created: bool = False
    usable: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    view: TopicsView
    asked_as: str
    again_at: float
    failures: int


@dataclass(slots=True)
class TopicsWatch:
    """Asks about one stream's topics now and then, less often the longer nobody answers."""

    clock: Callable[[], float]
    _seen: _Seen | None = field(default=None, init=False)

    def look(self, stream: DedupeStream, secret: Mapping[str, bytes]) -> TopicsView:
        """How the topics are, as far as that is known lately. Creates an absent output topic."""
        asked_as = _fingerprint(stream, secret)
        seen = self._seen
        if seen and seen.asked_as == asked_as and self.clock() < seen.again_at:
            return seen.view
        view = _ask(stream, secret)
        failures = 0 if view.partitions is not None else (seen.failures if seen else 0) + 1
        wait = _LOOK_EVERY_SECONDS
        if view.problems:
            doubled = _FIRST_RETRY_SECONDS * 2.0 ** min(failures, 10)
            wait = min(_LONGEST_RETRY_SECONDS, doubled)
        self._seen = _Seen(view, asked_as, self.clock() + wait, failures)
        return view


def _ask(stream: DedupeStream, secret: Mapping[str, bytes]) -> TopicsView:
    try:
        with client_properties(secret) as properties:
            servers = stream.spec.kafka.bootstrap_servers
            cluster = Cluster(servers, properties, timeout_seconds=_TIMEOUT_SECONDS)
            found = cluster.ensure_output(stream)
    except StreamError as error:
        return TopicsView(problems=(Problem(reason=error.reason, message=str(error)),))
    except CredentialsUnusable as error:
        return TopicsView(problems=(error.problem,))
    return TopicsView(
        partitions=found.partitions,
        problems=tuple(Problem(reason=one.reason, message=one.message) for one in found.problems),
        created=found.created,
        usable=not any(one.fatal for one in found.problems),
    )


def partition_state(
    stream: DedupeStream, secret: Mapping[str, bytes], partition: int
) -> PartitionState:
    """What copies of a partition's store are judged by. Raises StreamError or CredentialsUnusable."""
    with client_properties(secret) as properties:
        servers = stream.spec.kafka.bootstrap_servers
        cluster = Cluster(servers, properties, timeout_seconds=_TIMEOUT_SECONDS)
        return cluster.partition_state(stream, partition)


def _fingerprint(stream: DedupeStream, secret: Mapping[str, bytes]) -> str:
    """Changes with everything the answer depends on; says nothing of the secret itself."""
    digest = sha256(stream.spec.model_dump_json().encode())
    for key in sorted(secret):
        digest.update(key.encode() + b"\0" + sha256(secret[key]).digest())
    return digest.hexdigest()
