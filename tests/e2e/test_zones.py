"""Nodes in several zones: the pods of a stream are spread over them by default."""

from collections.abc import Callable, Iterator

import pytest

from dedupe_operator.kubernetes.names import ZONE
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.nodes import nodes_of
from tests.e2e.support.operators import chart_at_rest
from tests.e2e.support.stream import ClusterStream

# It changes the nodes, and starts the operator again, which has seen them as they were.
pytestmark = [pytest.mark.alone, pytest.mark.matrix]

CreateStream = Callable[..., ClusterStream]


@pytest.fixture
def zones(release: Environment, kubectl: Kubectl) -> Iterator[dict[str, str]]:
    """The zone of each node; there are as many as nodes."""
    made = {name: f"zone-{number}" for number, name in enumerate(nodes_of(release).names())}
    assert len(made) > 1
    try:
        for name, zone in made.items():
            kubectl("label", "node", name, f"{ZONE}={zone}")
        with chart_at_rest(kubectl):
            pass
        yield made
    finally:
        kubectl("label", "node", *made, f"{ZONE}-")


def test_the_pods_of_a_stream_are_spread_over_zones(
    streams: CreateStream, zones: dict[str, str]
) -> None:
    stream = streams(partitions=len(zones))
    stream.apply()
    stream.wait_until_ready()
    pods = stream.children("pods")
    assert {zones[pod["spec"]["nodeName"]] for pod in pods} == set(zones.values())
    assert all(spread_over(pod) == [ZONE, "kubernetes.io/hostname"] for pod in pods)


def spread_over(pod: Object) -> list[str]:
    return sorted(
        (each["topologyKey"] for each in pod["spec"]["topologySpreadConstraints"]), reverse=True
    )
