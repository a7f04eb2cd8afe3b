"""A namespace with streams that several tests look at, one after another."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dedupe_crds.status.stream import StreamStatus
from tests.cluster.environment import Environment
from tests.e2e.support.dump import directory_of, dump
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.namespaces import SMALL, make_namespace
from tests.e2e.support.stream import KIND, ClusterStream
from tests.e2e.support.topics import Topics
from tests.support.patience import wait_for
from tests.support.traffic.streams import stream_manifest


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A namespace that enforces the restricted Pod Security Standard, and topics for it."""

    cluster: Environment
    namespace: str
    kubectl: Kubectl
    topics: Topics
    directory: Path

    def stream(
        self,
        title: str,
        *,
        partitions: int = 1,
        bootstrap: str | None = None,
        topics: Topics | None = None,
        raw: bool = True,
        clean: bool = True,
        **spec: Any,  # noqa: ANN401 # any field of a spec
    ) -> ClusterStream:
        """Write a stream's manifest, and make its topics on `topics` unless `raw` or `clean` is False.

        `bootstrap` is the broker's address for the manifest; fields of `store` and `storage` are
        set beside those of a small stream.
        """
        on = topics or self.topics
        source = f"{title}-{uuid4().hex[:6]}"
        target = f"{source}-clean"
        for name, wanted in ((source, raw), (target, clean)):
            if wanted:
                on.create(name, partitions)
        for part, small in SMALL.items():
            spec[part] = {**small, **spec.get(part, {})}
        reached = bootstrap or self.cluster.kafka_bootstrap_in_cluster
        written = stream_manifest(self.directory, reached, source, target, **spec)
        return ClusterStream(
            name=written.name,
            namespace=self.namespace,
            bootstrap_servers=on.bootstrap_servers,
            input_topic=source,
            output_topic=target,
            manifest=written.manifest,
            kubectl=self.kubectl,
            partitions=partitions,
        )

    def statuses(self) -> dict[str, StreamStatus]:
        """The status of each stream of the namespace; an empty one if it judges an older generation."""
        return {stream["metadata"]["name"]: _current(stream) for stream in self.kubectl.items(KIND)}


def _current(stream: dict[str, Any]) -> StreamStatus:
    status = StreamStatus.model_validate(stream.get("status") or {})
    current = status.observed_generation == stream["metadata"]["generation"]
    return status if current else StreamStatus()


@contextmanager
def scene(
    cluster: Environment, title: str, directory: Path, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """Make one, and remove it with all that is in it; what failed tests saw is in build/e2e/<title>/."""
    kubectl = Kubectl(cluster)
    name = make_namespace(kubectl, title)
    topics = Topics(cluster.kafka_bootstrap)
    failed_before = request.session.testsfailed
    try:
        yield Scene(
            cluster=cluster,
            namespace=name,
            kubectl=kubectl.within(name),
            topics=topics,
            directory=directory,
        )
    finally:
        if request.session.testsfailed > failed_before:
            dump(kubectl, name, directory_of(title))
        _remove(kubectl, name)
        topics.delete_all()


def _remove(kubectl: Kubectl, namespace: str) -> None:
    """Remove a namespace, its workers first: with pods in it, it waits half of their grace period."""
    within = kubectl.within(namespace)
    within("delete", KIND, "--all", "--wait=false")
    wait_for(
        lambda: not within.items("pods"), f"{namespace} has no pods any more", poll_seconds=0.5
    )
    kubectl.remove("namespace", namespace)
