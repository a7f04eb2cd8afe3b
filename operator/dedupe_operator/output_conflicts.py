"""Detect streams with the same output topic: they would repeat each other.

The watches record every stream, the reconciler asks for conflicts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.kubernetes.names import Object


@dataclass(frozen=True, slots=True, order=True)
class _Output:
    """The output topic of a stream. Of two streams, the older one may use it."""

    created: str
    key: Key
    topic: str
    servers: frozenset[str]


class OutputConflicts:
    """The output topics of all watched streams. Safe to use from any thread.

    Two different addresses of one Kafka cluster are not recognised as the same.
    """

    def __init__(self) -> None:
        self._outputs: dict[Key, _Output] = {}
        self._lock = Lock()

    def record(self, key: Key, stream: Mapping[str, Any]) -> None:
        """Record the output of a new or changed stream."""
        spec = stream.get("spec") or {}
        servers = str((spec.get("kafka") or {}).get("bootstrapServers", ""))
        topic = str((spec.get("output") or {}).get("topic", ""))
        created = str(stream["metadata"].get("creationTimestamp", ""))
        with self._lock:
            self._outputs[key] = _Output(created, key, topic, frozenset(servers.split(",")))

    def forget(self, key: Key) -> None:
        """Forget a deleted stream."""
        with self._lock:
            self._outputs.pop(key, None)

    def problem(self, key: Key, stream: Object) -> Problem | None:
        """Return a problem if an older stream writes to the same output topic, else None."""
        self.record(key, stream)
        with self._lock:
            ours = self._outputs[key]
            older = [each for each in self._outputs.values() if each < ours and _same(each, ours)]
        if not older:
            return None
        other = min(older)
        return Problem(
            reason="OutputTopicShared",
            message=f"output topic {ours.topic} belongs to stream {other.key.namespace}/{other.key.name}: each would "
            "repeat the other's messages; delete one of them, and create it again with another spec.output.topic",
        )


def _same(first: _Output, second: _Output) -> bool:
    return first.topic == second.topic and bool(first.servers & second.servers)
