"""Notice within seconds that partitions were added to an input topic.

A pass over a stream comes every 22 s at rest, because each reads from the API server. This asks Kafka alone, once for
all inputs of a cluster, and has a stream reconciled when its input has another partition count.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import client_properties, secret_hash

_EVERY_SECONDS: Final = 5.0
_TIMEOUT_SECONDS: Final = 4.0
_THREADS: Final = 4  # a cluster that does not answer holds up its own inputs only

log = logging.getLogger(__name__)

_Access = tuple[str, str]
"""Bootstrap servers, and a hash of the Secret."""


@dataclass(slots=True)
class _Connection:
    """One connection for all streams with the same access to a cluster."""

    secret: Mapping[str, bytes] = field(repr=False)
    topics: dict[Key, str] = field(default_factory=dict)
    cluster: Cluster | None = None
    closing: ExitStack = field(default_factory=ExitStack)
    asked: Future[None] | None = None


class InputWatch:
    """Counts the partitions of all inputs.

    Once started, it calls `due` with a stream whose count has changed.
    """

    def __init__(self) -> None:
        self._due: Callable[[Key], None] = lambda _: None
        self._lock = Lock()
        self._connections: dict[_Access, _Connection] = {}
        self._counts: dict[Key, tuple[str, int]] = {}
        self._stop = Event()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="input-watch")
        self._thread = Thread(target=self._run, name="input-watch", daemon=True)

    def start(self, due: Callable[[Key], None]) -> None:
        """Start to ask."""
        self._due = due
        self._thread.start()

    def stop(self) -> None:
        """Stop, without waiting for what is being asked; remove credentials from disk."""
        self._stop.set()
        with self._lock:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for connection in self._connections.values():
                connection.closing.close()

    def partitions(self, key: Key, stream: DedupeStream, secret: Mapping[str, bytes]) -> int | None:
        """Watch the input of a stream from now on; return its last count, if there is one.

        With spec.repartition the workers' partitions never change, and the routers notice those of the inputs.
        """
        if stream.spec.repartition is not None:
            return None
        access = stream.spec.kafka.bootstrap_servers, secret_hash(secret)
        topic = stream.spec.worker_input
        with self._lock:
            self._forget(key, but=access)
            connection = self._connections.setdefault(access, _Connection(dict(secret)))
            connection.topics[key] = topic
            counted, count = self._counts.get(key, ("", 0))
        return count if counted == topic else None

    def forget(self, key: Key) -> None:
        """Watch the input of a stream no longer."""
        with self._lock:
            self._forget(key)
            self._counts.pop(key, None)

    def _forget(self, key: Key, but: _Access | None = None) -> None:
        for access, connection in list(self._connections.items()):
            if access == but or key not in connection.topics:
                continue
            del connection.topics[key]
            if not connection.topics:
                del self._connections[access]
                connection.closing.close()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            with self._lock:
                for (servers, _), connection in self._connections.items():
                    is_idle = connection.asked is None or connection.asked.done()
                    if is_idle and not self._stop.is_set():
                        connection.asked = self._pool.submit(self._ask, servers, connection)

    def _ask(self, servers: str, connection: _Connection) -> None:
        """Count the partitions of all inputs of one connection."""
        try:
            # In the lock, so that no credentials are written once the connection is closed.
            with self._lock:
                topics = dict(connection.topics)
                if not topics or self._stop.is_set():
                    return
                cluster = connection.cluster = connection.cluster or _connect(servers, connection)
            found = cluster.partition_counts(set(topics.values()))
        except StreamError as error:  # the next pass over each stream names it
            log.debug("counting partitions on %s: %s", servers, error)
            return
        for key, topic in topics.items():
            if topic in found:
                self._note(key, topic, found[topic])

    def _note(self, key: Key, topic: str, count: int) -> None:
        with self._lock:
            before = self._counts.get(key)
            self._counts[key] = topic, count
        if before is not None and before != (topic, count):
            self._due(key)


def _connect(servers: str, connection: _Connection) -> Cluster:
    """Connect with credentials on disk, which `connection.closing` removes."""
    properties = connection.closing.enter_context(client_properties(connection.secret))
    return Cluster(servers, properties, timeout_seconds=_TIMEOUT_SECONDS)
