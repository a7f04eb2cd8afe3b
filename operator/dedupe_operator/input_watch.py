"""Notice within seconds that partitions were added to an input topic.

A pass over a stream comes every 22 s at rest, or more rarely, because each asks its workers. This asks Kafka alone, for
all inputs of a cluster, and has a stream reconciled when its input has another partition count.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from typing import Final

from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_kafka.input_topics import matching_topics
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import secret_hash
from dedupe_operator.kafka_asks import Connection, KafkaAsks

_EVERY_SECONDS: Final = 5.0

_Access = tuple[str, str]
"""Bootstrap servers, and a hash of the Secret."""


@dataclass(slots=True)
class _Inputs:
    """The inputs of all streams with the same access to a cluster."""

    secret: Mapping[str, bytes] = field(repr=False)
    specs: dict[Key, Spec] = field(default_factory=dict)
    asked: Future[None] | None = None


class InputWatch:
    """Counts the partitions of all inputs.

    Once started, it calls `due` with a stream whose count has changed.
    """

    def __init__(self, asks: KafkaAsks) -> None:
        self._asks = asks
        self._due: Callable[[Key], None] = lambda _: None
        self._lock = Lock()
        self._inputs: dict[_Access, _Inputs] = {}
        self._counts: dict[Key, Mapping[str, int]] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, name="input-watch", daemon=True)

    def start(self, due: Callable[[Key], None]) -> None:
        """Start to ask."""
        self._due = due
        self._thread.start()

    def stop(self) -> None:
        """Stop, without waiting for what is being asked."""
        self._stop.set()

    def counts(
        self, key: Key, stream: DedupeStream, secret: Mapping[str, bytes]
    ) -> Mapping[str, int]:
        """Watch the inputs of a stream from now on; return their last counts, by topic.

        With spec.repartition the routers read new partitions, once the epoch log lists them.
        """
        access = stream.spec.kafka.bootstrap_servers, secret_hash(secret)
        with self._lock:
            self._forget(key, but=access)
            inputs = self._inputs.setdefault(access, _Inputs(dict(secret)))
            inputs.specs[key] = stream.spec
            return self._counts.get(key, {})

    def forget(self, key: Key) -> None:
        """Watch the input of a stream no longer."""
        with self._lock:
            self._forget(key)
            self._counts.pop(key, None)

    def _forget(self, key: Key, but: _Access | None = None) -> None:
        for access, inputs in list(self._inputs.items()):
            if access == but or key not in inputs.specs:
                continue
            del inputs.specs[key]
            if not inputs.specs:
                del self._inputs[access]

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            self._asks.tidy()
            with self._lock:
                asked = list(self._inputs.items())
            for (servers, _), inputs in asked:
                if inputs.asked is None or inputs.asked.done():
                    question = partial(self._ask, inputs)
                    inputs.asked = self._asks.ask_cluster(servers, inputs.secret, question)

    def _ask(self, inputs: _Inputs, connection: Connection) -> None:
        """Count the partitions of all inputs of one cluster. Raises StreamError."""
        with self._lock:
            specs = dict(inputs.specs)
        if not specs:
            return
        has_pattern = any(spec.input.pattern is not None for spec in specs.values())
        listed = connection.cluster.topic_names() if has_pattern else ()
        names = {key: matching_topics(listed, spec) for key, spec in specs.items()}
        wanted = {name for each in names.values() for name in each}
        found = connection.cluster.partition_counts(wanted)
        for key, topics in names.items():
            self._note(key, topics, found)

    def _note(self, key: Key, inputs: Collection[str], found: Mapping[str, int]) -> None:
        """Keep the counts of a stream's inputs; a topic that is gone keeps its last one."""
        with self._lock:
            before = self._counts.get(key, {})
            known = {**before, **found}
            now = self._counts[key] = {name: known[name] for name in inputs if name in known}
        if before and now != before:
            self._due(key)
