"""Notice within seconds that partitions were added to an input topic.

A pass over a stream comes every 22 s at rest, because each reads from the API server. This asks Kafka alone, once for
all inputs of a cluster, and has a stream reconciled when its input has another partition count.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Final

from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.input_topics import matching_topics
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
    inputs: dict[Key, Spec] = field(default_factory=dict)
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
        self._counts: dict[Key, Mapping[str, int]] = {}
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

    def counts(
        self, key: Key, stream: DedupeStream, secret: Mapping[str, bytes]
    ) -> Mapping[str, int]:
        """Watch the inputs of a stream from now on; return their last counts, by topic.

        With spec.repartition the routers read new partitions, once the epoch log lists them.
        """
        access = stream.spec.kafka.bootstrap_servers, secret_hash(secret)
        with self._lock:
            self._forget(key, but=access)
            connection = self._connections.setdefault(access, _Connection(dict(secret)))
            connection.inputs[key] = stream.spec
            return self._counts.get(key, {})

    def forget(self, key: Key) -> None:
        """Watch the input of a stream no longer."""
        with self._lock:
            self._forget(key)
            self._counts.pop(key, None)

    def _forget(self, key: Key, but: _Access | None = None) -> None:
        for access, connection in list(self._connections.items()):
            if access == but or key not in connection.inputs:
                continue
            del connection.inputs[key]
            if not connection.inputs:
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
                specs = dict(connection.inputs)
                if not specs or self._stop.is_set():
                    return
                cluster = connection.cluster = connection.cluster or _connect(servers, connection)
            has_pattern = any(spec.input.pattern is not None for spec in specs.values())
            listed = cluster.topic_names() if has_pattern else ()
            names = {key: matching_topics(listed, spec) for key, spec in specs.items()}
            found = cluster.partition_counts({name for each in names.values() for name in each})
        except StreamError as error:  # the next pass over each stream names it
            log.debug("counting partitions on %s: %s", servers, error)
            return
        for key, inputs in names.items():
            self._note(key, inputs, found)

    def _note(self, key: Key, inputs: Collection[str], found: Mapping[str, int]) -> None:
        """Keep the counts of a stream's inputs; a topic that is gone keeps its last one."""
        with self._lock:
            before = self._counts.get(key, {})
            known = {**before, **found}
            now = self._counts[key] = {name: known[name] for name in inputs if name in known}
        if before and now != before:
            self._due(key)


def _connect(servers: str, connection: _Connection) -> Cluster:
    """Connect with credentials on disk, which `connection.closing` removes."""
    properties = connection.closing.enter_context(client_properties(connection.secret))
    return Cluster(servers, properties, timeout_seconds=_TIMEOUT_SECONDS)
