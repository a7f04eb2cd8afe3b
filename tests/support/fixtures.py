"""Fixtures of the component and fault tests, whose conftest.py imports them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dedupe_crds.manifest import load_manifest
from dedupe_kafka.cluster import Cluster
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.processes.processes import Workers
from tests.support.processes.routers import RoutedStream, Routers, routed_manifest
from tests.support.traffic.streams import TestStream, stream_manifest

CreateStream = Callable[..., TestStream]

HOLDS_ANYTHING = {"retention.ms": -1, "message.timestamp.after.max.ms": 2**63 - 1}
"""Topic settings that accept and keep records with any timestamp."""


@pytest.fixture
def streams(broker: EmbeddedBroker, topics: Callable[..., str], tmp_path: Path) -> CreateStream:
    """Create streams: `streams(partitions=4, output={"max.message.bytes": 1 << 20})`.

    Both topics are new. `input` and `output` are their settings; the rest are fields of the spec, see
    `stream_manifest`.
    """

    def create(
        *,
        partitions: int = 1,
        input: dict[str, object] | None = None,  # noqa: A002 # the manifest's word
        output: dict[str, object] | None = None,
        **spec: object,
    ) -> TestStream:
        raw = topics("raw", partitions, **{**HOLDS_ANYTHING, **(input or {})})
        clean = topics("clean", partitions, **{**HOLDS_ANYTHING, **(output or {})})
        return stream_manifest(tmp_path, broker.bootstrap_servers, raw, clean, **spec)

    return create


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    """Start workers that end with the test: `workers.start(stream, partition=2)`."""
    started = Workers(tmp_path)
    yield started
    started.end_all()


@pytest.fixture
def routers(tmp_path: Path) -> Iterator[Routers]:
    """Start routers that end with the test: `routers.start(stream, 1)`."""
    started = Routers(tmp_path)
    yield started
    started.end_all()


@pytest.fixture
def routed_streams(
    broker: EmbeddedBroker, topics: Callable[..., str], tmp_path: Path
) -> Callable[..., RoutedStream]:
    """Create streams with routers: `routed_streams(inputs=(2, 3), partitions=4)`.

    `inputs` has the number of partitions of each input; the rest are as of `routed_manifest`.
    """

    def create(
        *,
        inputs: Sequence[int] = (2,),
        partitions: int = 4,
        **spec: Any,  # noqa: ANN401 # fields of the manifest
    ) -> RoutedStream:
        raw = [topics(f"raw-{n}", count, **HOLDS_ANYTHING) for n, count in enumerate(inputs)]
        output = f"clean-{uuid4().hex[:8]}"
        return routed_manifest(
            tmp_path, broker.bootstrap_servers, raw, output, partitions=partitions, **spec
        )

    return create


def topics_beside(stream: TestStream) -> None:
    """Create a stream's output and side topics, as the operator and `dedupe run` do."""
    manifest = load_manifest(stream.manifest)
    cluster = Cluster(stream.bootstrap_servers)
    cluster.wait_for(stream.input_topic)  # each broker learns of a new topic at its own time
    problems = cluster.ensure_output(manifest).problems
    assert not [problem for problem in problems if problem.fatal]


@pytest.fixture
def routing(streams: CreateStream, topics: Callable[..., str]) -> Callable[..., TestStream]:
    """Create streams with side topics.

    Example: `routing(duplicates=True, late={"maxAge": "1d"})`.
    """

    def create(*, partitions: int = 1, **routes: Any) -> TestStream:  # noqa: ANN401 # True, or more of the field
        spec: dict[str, Any] = {}
        for field, more in routes.items():
            if field in {"duplicates", "conflicts", "late"}:
                topic = topics(field, partitions, **{"retention.ms": -1})
                spec[field] = {
                    "policy": "Topic",
                    "topic": topic,
                    **(more if isinstance(more, dict) else {}),
                }
            else:
                spec[field] = more
        stream = streams(partitions=partitions, **spec)
        topics_beside(stream)
        return stream

    return create
