"""Faults that chance picks, for SOAK_MINUTES, on streams under load: `make soak`."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from tests.cluster.environment import Environment
from tests.e2e.support.chaos import RECOVERED_SECONDS, Chaos
from tests.e2e.support.copied import bucket_server, copied_stream
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.nodes import Nodes
from tests.e2e.support.scene import scene
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED

MINUTES: Final = float(os.environ.get("SOAK_MINUTES", "5"))
PER_SECOND: Final = 80.0
SCHEDULE: Final = {"schedule": "*/2 * * * *", "keep": 2}
FAILOVER: Final = {"nodeNotReadyAfter": "10s"}


@pytest.fixture
def streams(
    release: Environment, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[list[ClusterStream]]:
    """A stream with snapshots of each provider."""
    directory = tmp_path_factory.mktemp("soak")
    with bucket_server(release) as bucket, scene(release, "soak", directory, request) as place:
        common: dict[str, Any] = {"snapshots": SCHEDULE, "failover": FAILOVER}
        made = [
            copied_stream(place, "csi", partitions=3, **common),
            copied_stream(place, "bucket", bucket=bucket, partitions=2, **common),
        ]
        for stream in made:
            stream.apply()
        for stream in made:
            stream.wait_until_ready()
        yield made


@pytest.mark.alone
@pytest.mark.matrix
@pytest.mark.timeout(60 * MINUTES + RECOVERED_SECONDS + 600)
def test_nothing_is_lost_or_twice_or_out_of_order_whatever_happens(
    release: Environment, streams: list[ClusterStream]
) -> None:
    kubectl = Kubectl(release)
    nodes = Nodes(release) if release.node_control else None
    several = nodes if nodes and len(nodes.names()) > 1 else None
    print(f"FAULT_SEED={SEED}, {MINUTES:g} minutes, nodes {'fail too' if several else 'stay up'}")
    chaos = Chaos(streams, kubectl, several, SEED)
    with ExitStack() as running:
        loads = [
            running.enter_context(LiveLoad(stream, SEED + number, messages_per_second=PER_SECOND))
            for number, stream in enumerate(streams)
        ]
        chaos.go_on(MINUTES)
    verdicts = [load.judged() for load in loads]

    print(f"faults: {dict(chaos.done)}")
    print(f"stores came from: {dict(chaos.rungs)}")
    slowest = {fault: round(seconds, 1) for fault, seconds in chaos.slowest.items()}
    print(f"longest until all were ready, in seconds: {slowest}")
    for stream, verdict in zip(streams, verdicts, strict=True):
        print(f"{stream.name}: {verdict}")
        stream.wait_until_rolled_out()
    assert chaos.done
