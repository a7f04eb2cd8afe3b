"""Streams that would write to the same output topic, where each would repeat what the other has passed."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.kubernetes.names import Object


@dataclass(frozen=True, slots=True, order=True)
class _Output:
    """Where a stream writes. The older one has the right to it."""

    created: str
    key: Key
    topic: str
    servers: frozenset[str]


class Rivals:
    """The outputs of all streams that are watched. Safe to use from any thread.

    The same cluster under different addresses is not recognised.
    """

    def __init__(self) -> None:
        self._outputs: dict[Key, _Output] = {}
        self._lock = Lock()

    def note(self, key: Key, stream: Mapping[str, Any]) -> None:
        """A stream is there, or has changed."""
        spec = stream.get("spec") or {}
        servers = str((spec.get("kafka") or {}).get("bootstrapServers", ""))
        topic = str((spec.get("output") or {}).get("topic", ""))
        created = str(stream["metadata"].get("creationTimestamp", ""))
        with self._lock:
            self._outputs[key] = _Output(created, key, topic, frozenset(servers.split(",")))

    def forget(self, key: Key) -> None:
        """A stream is gone."""
        with self._lock:
            self._outputs.pop(key, None)

    def problem(self, key: Key, stream: Object) -> Problem | None:
        """Why a stream must not start, if an older one writes to its output topic."""
        self.note(key, stream)
        with self._lock:
            ours = self._outputs[key]
            older = [one for one in self._outputs.values() if one < ours and _same(one, ours)]
        if not older:
            return None
        other = min(older)
        return Problem(
            reason="OutputTopicShared",
            message=f"output topic {ours.topic} is that of stream {other.key.namespace}/{other.key.name}: each would "
            "repeat what the other has passed on; delete one of them, and give it another spec.output.topic",
        )


def _same(one: _Output, other: _Output) -> bool:
    return one.topic == other.topic and bool(one.servers & other.servers)
