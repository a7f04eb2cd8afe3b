"""Take a stream with routers to the partitions of its manifest, pass by pass.

The reconciler keeps one `GrowthWatch` for each stream. The controller of the growth asks Kafka, outside of the pass,
which then ends; at rest it is called once a minute, and when something has changed. Invariant: the epoch log is the
truth. What is in memory may be lost, and an operator that is killed is continued by the next one.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.growth import GrowthStatus
from dedupe_growth.before_routers import Ran, RoutersRefused
from dedupe_growth.controller import GrowthController
from dedupe_growth.entries import EpochLogUnreadable
from dedupe_growth.epochs import Epochs
from dedupe_growth.unlearnt import unlearnt
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.input_topics import matching_topics
from dedupe_kafka.offsets import TopicOffsets
from dedupe_operator.credentials import secret_hash
from dedupe_operator.decide.growth import GrowthView, Workers
from dedupe_operator.decide.kafka_problems import problem_of
from dedupe_operator.kafka_asks import Connection, KafkaAsks, Pending
from dedupe_operator.topic_watch import TopicsView

_REFRESH_SECONDS: Final = 60.0
_FIRST_RETRY_SECONDS: Final = 3.0
_LONGEST_RETRY_SECONDS: Final = 60.0
# More than one growth has entries: the next pass does the rest.
_ACTS: Final = 6

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Connection:
    """The connection of the present question, as the controller sees it.

    `properties` are those of its client.
    """

    properties: dict[str, str] = field(default_factory=dict, repr=False)
    cluster: Cluster | None = None

    def topic_names(self) -> list[str]:
        return self._open.topic_names()

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        return self._open.partition_counts(names)

    def offsets(self, name: str) -> TopicOffsets:
        return self._open.offsets(name)

    def offsets_of(self, name: str, partitions: Collection[int]) -> TopicOffsets:
        return self._open.offsets_of(name, partitions)

    @property
    def _open(self) -> Cluster:
        if self.cluster is None:
            raise RuntimeError("asked between two passes")
        return self.cluster

    def use(self, connection: Connection) -> None:
        """Use this connection from now on."""
        self.properties.clear()
        self.properties.update(connection.properties)
        self.cluster = connection.cluster


@dataclass(slots=True)
class _Driver:
    """The controller for one manifest and Secret; the epochs as of its last act."""

    of: str
    connection: _Connection
    controller: GrowthController
    epochs: Epochs | None = None
    status: GrowthStatus | None = None


@dataclass(slots=True)
class GrowthWatch:
    """The growth of one stream, with back-off while Kafka does not answer."""

    asks: KafkaAsks
    _view: GrowthView = field(default_factory=GrowthView, init=False)
    _driver: _Driver | None = field(default=None, init=False)
    _asked: tuple[str, bool, Mapping[str, int]] | None = field(default=None, init=False)
    _pending: Pending[None] = field(default_factory=Pending, init=False)
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
        again: bool = False,
    ) -> GrowthView | None:
        """Have the acts done that are due; return the growth, None without routers.

        `known` is the number of partitions that have workers, `direct` the topic that they read without
        routers, if they do. `counted` has the partition counts of the inputs as last counted: others are a reason to
        ask. While the topics are not known nothing is done. `again`: the pass is made again with live reads, so the
        answer of the attempt before holds.

        Raises AnswerPending until the acts are done.
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
        if asked == self._asked and (again or self.asks.clock() < self._again_at):
            return self._view
        driver = self._driver_of(fingerprint, stream)
        ran = Ran(direct, known) if direct and known else None
        act = partial(_act, driver, stream, topics, known, left=unlearnt(workers.values()), ran=ran)

        def ask() -> Future[None]:
            self._asked = asked
            return self.asks.ask(stream, secret, partial(act, direct=direct))

        answer = self._pending.take(self.asks, fingerprint, ask)
        if answer is None:
            return replace(self._view, problem=self._pending.wait(self.asks))
        self._note(driver, answer, stream.spec.kafka.bootstrap_servers)
        return self._view

    def drop(self) -> None:
        """Ask no longer."""
        self._pending.drop()

    def _driver_of(self, fingerprint: str, stream: DedupeStream) -> _Driver:
        if self._driver is None or self._driver.of != fingerprint:
            connection = _Connection()
            controller = GrowthController(stream, connection.properties, connection)
            self._driver = _Driver(fingerprint, connection, controller)
        return self._driver

    def _note(self, driver: _Driver, answer: Callable[[], None], servers: str) -> None:
        """Take over what the acts have changed, and when to ask again."""
        problem, unreadable = None, False
        try:
            answer()
        except StreamError as error:
            problem = problem_of(error, servers)
            unreadable = isinstance(error, EpochLogUnreadable)
        if driver.epochs is not None:
            status = driver.status or self._view.status
            self._view = replace(self._view, epochs=driver.epochs, status=status)
        self._view = replace(self._view, problem=problem, unreadable=unreadable)
        if problem is None:
            self._failures, wait = 0, 0.0 if self._view.is_due else _REFRESH_SECONDS
        else:
            doubled = _FIRST_RETRY_SECONDS * 2.0 ** min(self._failures, 10)
            wait = min(_LONGEST_RETRY_SECONDS, doubled)
            self._failures += 1
        self._again_at = self.asks.clock() + wait


def _act(
    driver: _Driver,
    stream: DedupeStream,
    topics: TopicsView,
    known: int,
    connection: Connection,
    *,
    left: Mapping[int, int],
    ran: Ran | None,
    direct: str | None,
) -> None:
    """Call the controller until nothing is left to do now. Raises StreamError."""
    driver.connection.use(connection)
    controller = driver.controller
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
            driver.epochs, driver.status = controller.epochs, controller.status


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
