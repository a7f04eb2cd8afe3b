"""Take a stream with routers to the partitions of its manifest, pass by pass.

The reconciler keeps one `GrowthWatch` for each stream. The controller of the growth asks Kafka; at rest it is called
once a minute, and when something has changed. Invariant: the epoch log is the truth. What is in memory may be lost, and
an operator that is killed is continued by the next one.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_growth.before_routers import Ran, RoutersRefused
from dedupe_growth.controller import GrowthController
from dedupe_growth.entries import EpochLogUnreadable
from dedupe_growth.epochs import Epochs
from dedupe_growth.unlearnt import unlearnt
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.input_topics import matching_topics
from dedupe_kafka.offsets import TopicOffsets
from dedupe_operator.credentials import client_properties, secret_hash
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.growth import GrowthView, Workers
from dedupe_operator.topic_watch import TopicsView

_TIMEOUT_SECONDS: Final = 5.0
_REFRESH_SECONDS: Final = 60.0
_FIRST_RETRY_SECONDS: Final = 3.0
_LONGEST_RETRY_SECONDS: Final = 60.0
# More than one growth has entries: the next pass does the rest.
_ACTS: Final = 6

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Connection:
    """The connection of the present pass, as the controller sees it.

    `properties` are those of the client; like the files that they name, they exist within a pass only.
    """

    properties: dict[str, str] = field(default_factory=dict, repr=False)
    cluster: Cluster | None = None

    def topic_names(self) -> list[str]:
        return self._open.topic_names()

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        return self._open.partition_counts(names)

    def offsets(self, name: str) -> TopicOffsets:
        return self._open.offsets(name)

    @property
    def _open(self) -> Cluster:
        if self.cluster is None:
            raise RuntimeError("asked between two passes")
        return self.cluster

    @contextmanager
    def opened(self, servers: str, secret: Mapping[str, bytes]) -> Iterator[None]:
        """Connect within the block. Raises CredentialsUnusable."""
        with client_properties(secret) as properties:
            self.properties.clear()
            self.properties.update(properties)
            self.cluster = Cluster(servers, properties, timeout_seconds=_TIMEOUT_SECONDS)
            try:
                yield
            finally:
                self.cluster = None
                self.properties.clear()


@dataclass(slots=True)
class GrowthWatch:
    """The growth of one stream, with back-off while Kafka does not answer."""

    clock: Callable[[], float]
    _view: GrowthView = field(default_factory=GrowthView, init=False)
    _connection: _Connection = field(default_factory=_Connection, init=False)
    _controller: GrowthController | None = field(default=None, init=False)
    _of: Spec | None = field(default=None, init=False)
    _asked: tuple[str, bool, Mapping[str, int]] | None = field(default=None, init=False)
    _again_at: float = field(default=0.0, init=False)
    _failures: int = field(default=0, init=False)

    def get(
        self,
        stream: DedupeStream,
        secret: Mapping[str, bytes],
        topics: TopicsView,
        *,
        known: int,
        workers: Workers,
        counted: Mapping[str, int],
        direct: str | None = None,
    ) -> GrowthView | None:
        """Do the acts that are due; return what is known then, None without routers.

        `known` is the number of partitions that have workers, `direct` the topic that they read without
        routers, if they do. `counted` has the partition counts of the inputs as last counted: others are a reason to
        ask. While the topics are not known nothing is done.
        """
        if stream.spec.repartition is None:
            return None
        self._view = replace(
            self._view, wanted=stream.spec.repartition.partitions, direct=direct is not None
        )
        if topics.partitions is None:
            return self._view
        fingerprint = secret_hash(secret, stream.spec.model_dump_json().encode())
        asked = (fingerprint, topics.usable, counted)
        if asked == self._asked and self.clock() < self._again_at:
            return self._view
        self._asked = asked
        problem, unreadable = None, False
        try:
            with self._connection.opened(stream.spec.kafka.bootstrap_servers, secret):
                self._step(stream, topics, known, workers, direct=direct)
            self._failures, wait = 0, 0.0 if self._view.is_due else _REFRESH_SECONDS
        except StreamError as error:
            problem = Problem(reason=error.reason, message=str(error))
            unreadable = isinstance(error, EpochLogUnreadable)
            wait = min(
                _LONGEST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(self._failures, 10)
            )
            self._failures += 1
        self._view = replace(self._view, problem=problem, unreadable=unreadable)
        self._again_at = self.clock() + wait
        return self._view

    def _step(
        self,
        stream: DedupeStream,
        topics: TopicsView,
        known: int,
        workers: Workers,
        *,
        direct: str | None,
    ) -> None:
        """Call the controller until nothing is left to do now. Raises StreamError."""
        if self._controller is None or self._of != stream.spec:
            connection = self._connection
            self._controller = GrowthController(stream, connection.properties, connection)
            self._of = stream.spec
        controller, left = self._controller, unlearnt(workers.values())
        ran = Ran(direct, known) if direct and known else None
        try:
            if controller.read().prepared < controller.epochs.first and direct:
                _check_input(stream, direct)
            for _ in range(_ACTS):
                wanted = _wanted(*(controller.epochs, topics, known), direct=direct is not None)
                if not wanted or not controller.step(wanted, left, ran=ran):
                    break
                log.info("%s: growth: %s", stream.shown, _shown(controller))
        finally:
            if controller.epochs.entries:
                status = controller.status or self._view.status
                self._view = replace(self._view, epochs=controller.epochs, status=status)


def _check_input(stream: DedupeStream, direct: str) -> None:
    """Raise RoutersRefused if the workers read what is no input any more.

    The API server refuses that in the update that adds routers, but not in a later one.
    """
    if direct not in matching_topics([direct], stream.spec):
        raise RoutersRefused(
            f"the workers read {direct} without routers, and spec.input does not have it: put it back until the stream "
            "has its routers"
        )


def _shown(controller: GrowthController) -> str:
    """Return where a stream is after an act, for the log."""
    epochs, status = controller.epochs, controller.status
    step = status.line if status else f"{epochs.workers} partitions."
    return (
        f"{step} Epochs: {epochs.prepared} prepared, {epochs.switched} switched, {epochs.done} done"
    )


def _wanted(epochs: Epochs, topics: TopicsView, known: int, *, direct: bool) -> int:
    """Return the number of partitions for the controller; 0 if it is to do nothing.

    A stream that runs and has no entry yet is one of a release without epochs: it begins with the partitions that it
    has, because its routers decide between these. Not so if its workers run `direct`, without routers: it gets the
    manifest's number at once, and nothing is done before the topics have it.
    """
    ready = (topics.partitions or 0) if topics.usable else 0
    if epochs.prepared < epochs.first:
        return ready if direct or epochs.entries else known or ready
    return ready or epochs.workers
