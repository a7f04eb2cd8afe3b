"""Detect streams that write to the same topic: they would repeat each other.

The reconciler asks for conflicts once Kafka has answered. Invariant: a topic belongs to the first stream whose
credentials may write to it. A stream that has not reached Kafka, or has no rights there, holds up no other, nor does
one of another namespace whose brokers may say what they like.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Conflict:
    """A problem for a stream's status. If it `blocks`, the stream starts no worker."""

    problem: Problem
    blocks: bool


class OutputConflicts:
    """The topics of all streams. Safe to use from any thread.

    With `believed`, every cluster is believed about its topics: the platform has chosen the clusters, or all streams
    are of one namespace. Else a stream of another namespace is believed only if it names no other addresses.

    Without topic ids, two addresses of one Kafka cluster are not recognised as the same.
    """

    def __init__(self, *, believed: bool = False) -> None:
        self._believed = believed
        self._claims: dict[_Topic, dict[Key, frozenset[str]]] = {}
        """The streams that have a topic, the first one first, with their addresses."""
        self._lock = Lock()

    def load(self, streams: Iterable[tuple[Object, StreamStatus]]) -> None:
        """Give the topics to the streams that have them by their status.

        If several have one, it belongs to the oldest that has partitions.
        """
        for raw, status in sorted(streams, key=_age):
            key = Key(raw["metadata"]["namespace"], raw["metadata"]["name"])
            spec = raw["spec"]
            hosts = _hosts(spec["kafka"]["bootstrapServers"])
            held: Collection[_Topic] = status.topic_ids or ()
            if status.partitions and not held:
                held = _named(hosts, [spec["output"]["topic"]])
            self._claim(key, hosts, held)

    def forget(self, key: Key) -> None:
        """Forget a deleted stream."""
        with self._lock:
            self._claim(key, frozenset(), ())

    def find(
        self, stream: DedupeStream, *, held: Mapping[str, str], routed: Mapping[str, str]
    ) -> Conflict | None:
        """Give a stream its topics, or return the conflict with another one.

        `held` has the UUIDs by name of the topics that must be its own, and that it may write to. `routed` has those
        that it may share, but not with a stream that must have them alone.
        """
        key = Key(stream.metadata.namespace, stream.metadata.name)
        hosts = _hosts(stream.spec.kafka.bootstrap_servers)
        claimed: str | None = None
        with self._lock:
            for name, topic_id in {**routed, **held}.items():
                first = True
                for topic in (topic_id, *_named(hosts, [name])):
                    for owner, named in self._claims.get(topic, {}).items():
                        first = first and owner != key
                        believed = self._believed or owner.namespace == key.namespace
                        if first and (believed or named <= hosts):
                            return Conflict(_shared(name, owner, key), blocks=True)
                        if owner != key:
                            claimed = name
            if held:
                self._claim(key, hosts, known_topics(stream.spec, held))
        return None if claimed is None else Conflict(_claimed(claimed), blocks=False)

    def _claim(self, key: Key, hosts: frozenset[str], topics: Collection[_Topic]) -> None:
        """Let a stream have these topics and no others.

        It keeps its place among the streams of a topic that it had.
        """
        for topic, claims in list(self._claims.items()):
            if topic not in topics and claims.pop(key, None) is not None and not claims:
                del self._claims[topic]
        for topic in topics:
            self._claims.setdefault(topic, {})[key] = hosts


def _age(stream: tuple[Object, StreamStatus]) -> tuple[Any, ...]:
    raw, status = stream
    metadata = raw["metadata"]
    created = str(metadata.get("creationTimestamp", ""))
    return not status.partitions, created, metadata["namespace"], metadata["name"]


def known_topics(spec: Spec, held: Mapping[str, str]) -> list[str]:
    """Return what tells the topics `held`, UUIDs by name, from all others."""
    topics = [topic_id for topic_id in held.values() if has_id(topic_id)]
    return topics or _named(_hosts(spec.kafka.bootstrap_servers), held)


def _hosts(servers: str) -> frozenset[str]:
    return frozenset(server.strip() for server in servers.lower().split(","))


def _named(hosts: Iterable[str], names: Iterable[str]) -> list[_Topic]:
    return [f"{host}/{name}" for host in sorted(hosts) for name in names]


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


def _claimed(name: str) -> Problem:
    return Problem(
        reason="OutputTopicClaimed",
        message=f"a stream of another namespace, which reaches Kafka at other addresses, has topic {name} as well: "
        "if that is the same cluster, each repeats the other's messages; look in the topic for producers that are "
        "not yours. The platform's administrators rule out that others make it up with the chart value "
        "allowed.bootstrapServers",
    )
