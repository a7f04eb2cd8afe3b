"""Detect streams that write to the same topic: they would repeat each other.

The reconciler asks for conflicts once Kafka has answered. Invariant: a topic belongs to the first stream whose
credentials may write to it. A stream that has not reached Kafka, or has no rights there, holds up no other.
"""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_crds.status.stream import StreamStatus
from dedupe_kafka.topic_id import has_id
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.kubernetes.names import Object

_Topic = str
"""A topic's UUID. Of brokers without topic ids, and of a release that recorded none: an address and the name."""


class OutputConflicts:
    """The topics of all streams. Safe to use from any thread.

    Without topic ids, two addresses of one Kafka cluster are not recognised as the same.
    """

    def __init__(self) -> None:
        self._owners: dict[_Topic, Key] = {}
        self._lock = Lock()

    def load(self, streams: Iterable[tuple[Object, StreamStatus]]) -> None:
        """Give the topics to the streams that have them by their status.

        If several have one, it belongs to the oldest that has partitions.
        """
        for raw, status in sorted(streams, key=_age):
            key = Key(raw["metadata"]["namespace"], raw["metadata"]["name"])
            held: Iterable[_Topic] = status.topic_ids or ()
            if status.partitions and not held:
                spec = raw["spec"]
                held = _named(spec["kafka"]["bootstrapServers"], [spec["output"]["topic"]])
            for topic in held:
                self._owners.setdefault(topic, key)

    def forget(self, key: Key) -> None:
        """Forget a deleted stream."""
        with self._lock:
            self._release(key)

    def problem(
        self, stream: DedupeStream, *, held: Mapping[str, str], routed: Mapping[str, str]
    ) -> Problem | None:
        """Give a stream its topics, or return the problem that another has one of them.

        `held` has the UUIDs by name of the topics that must be its own, and that it may write to. `routed` has those
        that it may share, but not with a stream that must have them alone.
        """
        key = Key(stream.metadata.namespace, stream.metadata.name)
        with self._lock:
            for name, topic_id in {**routed, **held}.items():
                for topic in (topic_id, *_named(stream.spec.kafka.bootstrap_servers, [name])):
                    owner = self._owners.get(topic, key)
                    if owner != key:
                        return _shared(name, owner, key)
            if held:
                self._release(key)
                self._owners |= dict.fromkeys(known_topics(stream.spec, held), key)
        return None

    def _release(self, key: Key) -> None:
        self._owners = {topic: owner for topic, owner in self._owners.items() if owner != key}


def _age(stream: tuple[Object, StreamStatus]) -> tuple[Any, ...]:
    raw, status = stream
    metadata = raw["metadata"]
    created = str(metadata.get("creationTimestamp", ""))
    return not status.partitions, created, metadata["namespace"], metadata["name"]


def known_topics(spec: Spec, held: Mapping[str, str]) -> list[str]:
    """Return what tells the topics `held`, UUIDs by name, from all others."""
    topics = [topic_id for topic_id in held.values() if has_id(topic_id)]
    return topics or _named(spec.kafka.bootstrap_servers, held)


def _named(servers: str, names: Iterable[str]) -> list[_Topic]:
    hosts = [server.strip() for server in servers.lower().split(",")]
    return [f"{host}/{name}" for host in hosts for name in names]


def _shared(name: str, owner: Key, key: Key) -> Problem:
    """Return the problem; a stream of another namespace is not named."""
    if owner.namespace == key.namespace:
        who = f"stream {owner.namespace}/{owner.name}"
    else:
        who = "a stream of another namespace"
    return Problem(
        reason="OutputTopicShared",
        message=f"topic {name} belongs to {who}: each would repeat the other's messages; delete one of them, and "
        "create it again with other topics",
    )
