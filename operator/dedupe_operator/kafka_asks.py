"""Ask Kafka outside of the reconcile threads, once for each cluster and Secret.

A cluster that does not answer takes seconds to show it, and whoever creates streams chooses the clusters. So a lane
asks the questions of one cluster one after another, over one connection, and the lanes of silent or slow clusters have
separate threads: they hold up neither a pass nor a lane that gets answers. The watches of a stream keep the answers;
the reconciler makes another pass once one is there.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import BrokerUnavailable, StreamError
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import client_properties, secret_hash
from dedupe_operator.decide.allow_list import AllowList
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.kafka_problems import is_silence

_TIMEOUT_SECONDS: Final = 5.0
_SLOW_SECONDS: Final = 10.0
_ANSWERING_THREADS: Final = 32
_SILENT_THREADS: Final = 8
_FIRST_RETRY_SECONDS: Final = 3.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 60.0
_PATIENCE_SECONDS: Final = 30.0
# The answer about all topics of a cluster with 100,000 partitions has some 6 MB. The default is 100 MB, for each lane.
_BOUNDS: Final = {"receive.message.max.bytes": str(8 << 20), "fetch.max.bytes": str(4 << 20)}

log = logging.getLogger(__name__)

T = TypeVar("T")


class AnswerPending(Exception):
    """Kafka has not answered yet. The pass ends, and another follows the answer.

    Not a StreamError, because it is no failure.
    """


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection, with the properties of its client."""

    cluster: Cluster
    properties: Mapping[str, str] = field(repr=False)


Question = Callable[[Connection], T]


@dataclass(slots=True)
class _Lane:
    """The questions to one cluster with one Secret; one thread at a time takes them."""

    servers: str
    secret: Mapping[str, bytes] = field(repr=False)
    queue: deque[tuple[Question[Any], Future[Any]]] = field(default_factory=deque)
    taken: bool = False
    connection: Connection | None = None
    answered: bool = False
    failures: int = 0
    slow: bool = False
    error: StreamError | None = None
    again_at: float = 0.0
    used_at: float = 0.0

    @property
    def is_silent(self) -> bool:
        """Return whether its cluster did not answer, more than once if it ever has."""
        return self.failures > int(self.answered)

    @property
    def holds_up(self) -> bool:
        """Return whether its last question took a thread for long, or soon will."""
        return self.slow or self.is_silent

    def close(self) -> None:
        """Close the connection."""
        self.connection = None


class KafkaAsks:
    """Lanes to all clusters. Safe to use from any thread.

    `clock` returns seconds and never goes backward. `check` raises LostLeadership; it is called before each question,
    because some of them create topics. `answering` and `silent` run the lanes.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        allowed: AllowList = AllowList(),  # noqa: B008 (it is frozen)
        check: Callable[[], None] = lambda: None,
        answering: Executor | None = None,
        silent: Executor | None = None,
    ) -> None:
        self.clock = clock
        self._allowed = allowed
        self._check = check
        self._answering = answering or ThreadPoolExecutor(_ANSWERING_THREADS, "ask-kafka")
        self._silent = silent or ThreadPoolExecutor(_SILENT_THREADS, "ask-silent-kafka")
        self._due: Callable[[Key], None] = lambda _: None
        self._lock = Lock()
        self._stopped = False
        self._lanes: dict[tuple[str, str], _Lane] = {}

    def start(self, due: Callable[[Key], None]) -> None:
        """Call `due` with the stream of each answer from now on."""
        self._due = due

    def stop(self) -> None:
        """Stop, without waiting for answers."""
        with self._lock:
            self._stopped = True
            for executor in (self._answering, self._silent):
                executor.shutdown(wait=False, cancel_futures=True)
            for lane in self._lanes.values():
                lane.close()

    def ask(
        self,
        stream: DedupeStream,
        secret: Mapping[str, bytes],
        question: Question[T],
        *,
        known: T | None = None,
    ) -> Future[T]:
        """Ask a stream's cluster. The answer may be a StreamError.

        It brings a pass, unless it is `known`.
        """
        key = Key(stream.metadata.namespace, stream.metadata.name)

        def answered(done: Future[T]) -> None:
            if not done.cancelled() and (
                known is None or done.exception() or done.result() != known
            ):
                self._due(key)

        answer = self.ask_cluster(stream.spec.kafka.bootstrap_servers, secret, question)
        answer.add_done_callback(answered)
        return answer

    def ask_cluster(
        self, servers: str, secret: Mapping[str, bytes], question: Question[T]
    ) -> Future[T]:
        """Ask a cluster. The answer may be a StreamError."""
        answer: Future[T] = Future()
        with self._lock:
            if self._stopped:
                answer.cancel()
                return answer
            access = servers, secret_hash(secret)
            lane = self._lanes.setdefault(access, _Lane(servers, dict(secret)))
            lane.queue.append((question, answer))
            lane.used_at = self.clock()
            begins, lane.taken = not lane.taken, True
        if begins:
            self._begin(lane)
        return answer

    def _begin(self, lane: _Lane) -> None:
        executor = self._silent if lane.holds_up else self._answering
        executor.submit(self._take, lane, apart=lane.holds_up)

    def tidy(self) -> None:
        """Close the lanes that are not used any more."""
        with self._lock:
            for access, lane in list(self._lanes.items()):
                if not lane.taken and self.clock() - lane.used_at > _IDLE_SECONDS:
                    del self._lanes[access]
                    lane.close()

    def _take(self, lane: _Lane, *, apart: bool) -> None:
        """Ask the questions of a lane until none is left.

        One that holds others up moves to the threads that are `apart`.
        """
        while (asked := self._next(lane)) is not None:
            question, answer = asked
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                result = self._answer(lane, question)
            except Exception as error:  # noqa: BLE001 (the one who asked gets it)
                answer.set_exception(error)
            else:
                answer.set_result(result)
            if lane.holds_up and not apart:
                self._begin(lane)
                return

    def _next(self, lane: _Lane) -> tuple[Question[Any], Future[Any]] | None:
        with self._lock:
            if lane.queue and not self._stopped:
                return lane.queue.popleft()
            lane.taken = False
            return None

    def _answer(self, lane: _Lane, question: Question[T]) -> T:
        """Ask one question. Raises StreamError."""
        self._check()
        if lane.error and self.clock() < lane.again_at:
            raise copy(lane.error)
        connection, began = self._connected(lane), self.clock()
        try:
            result = question(connection)
        except StreamError as error:
            if is_silence(error):
                self._note_silence(lane, error)
            else:
                self._note_answer(lane)
            raise
        finally:
            lane.slow = self.clock() - began > _SLOW_SECONDS
        self._note_answer(lane)
        return result

    def _connected(self, lane: _Lane) -> Connection:
        # In the lock, so that no connection is opened once all lanes are closed.
        with self._lock:
            if lane.connection is None:
                if self._stopped:
                    raise BrokerUnavailable("the operator stops")
                properties = {**client_properties(lane.secret, self._allowed), **_BOUNDS}
                cluster = Cluster(lane.servers, properties, timeout_seconds=_TIMEOUT_SECONDS)
                lane.connection = Connection(cluster, properties)
            return lane.connection

    def _note_answer(self, lane: _Lane) -> None:
        if lane.is_silent:
            log.info("Kafka at %s answers", lane.servers)
        lane.answered, lane.failures, lane.error = True, 0, None

    def _note_silence(self, lane: _Lane, error: StreamError) -> None:
        log.log(
            logging.DEBUG if lane.is_silent else logging.WARNING,
            *("Kafka at %s does not answer: %s", lane.servers, error),
        )
        lane.failures += 1
        with self._lock:
            lane.close()
        if lane.is_silent:
            doubled = _FIRST_RETRY_SECONDS * 2.0 ** min(lane.failures - 1, 10)
            lane.error, lane.again_at = error, self.clock() + min(_LONGEST_RETRY_SECONDS, doubled)


@dataclass(slots=True)
class Pending(Generic[T]):
    """The question that a watch has asked; one at a time."""

    _answer: Future[T] | None = field(default=None, init=False)
    _about: str = field(default="", init=False)
    _since: float = field(default=0.0, init=False)

    def take(
        self, asks: KafkaAsks, about: str, ask: Callable[[], Future[T]]
    ) -> Callable[[], T] | None:
        """Return the answer as a call that may raise, None while there is none.

        Asks if nothing `about` the same is asked. What is asked about something else is dropped.
        """
        if self._answer is None or self._about != about:
            self.drop()
            self._answer, self._about, self._since = ask(), about, asks.clock()
        if not self._answer.done():
            return None
        answer, self._answer = self._answer, None
        return answer.result

    def wait(self, asks: KafkaAsks) -> Problem:
        """Raise AnswerPending; after a while, return the problem that there is no answer."""
        if asks.clock() - self._since < _PATIENCE_SECONDS:
            raise AnswerPending
        return Problem(
            reason="KafkaNotAsked",
            message="Kafka was not asked yet: the operator waits for other clusters, which do not answer",
        )

    def drop(self) -> None:
        """Forget what is asked."""
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None
