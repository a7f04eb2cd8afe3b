"""Nodes that die or are drained, while messages come: their workers go on elsewhere."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.cluster.environment import Environment
from tests.e2e.support.faults import Before, is_ready, pod_of
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.moves import assert_moved_in_time, assert_told, node_of, wait_until_moved
from tests.e2e.support.nodes import Nodes, nodes_of
from tests.e2e.support.pods import PodsWatched
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.layers import matrix
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., ClusterStream]

NOT_READY_AFTER = timedelta(seconds=10)
FAILOVER = {"failover": {"nodeNotReadyAfter": f"{NOT_READY_AFTER.total_seconds():.0f}s"}}
MESSAGES = 300


@pytest.fixture
def nodes(release: Environment) -> Nodes:
    return nodes_of(release)


@pytest.mark.alone
@pytest.mark.parametrize("with_operator", [False, matrix(True)])
def test_a_dead_nodes_workers_go_on_elsewhere_on_their_own_volumes(
    streams: CreateStream, nodes: Nodes, *, with_operator: bool
) -> None:
    stream = started(streams, partitions=2)
    before = Before.of(stream)
    victim = node_of(stream, 0)
    hit = [p for p in range(stream.partitions) if node_of(stream, p) == victim]
    for name in set(nodes.names()) - {victim} if with_operator else {victim}:
        nodes.keep_operator_away_from(name)

    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        pods = {p: pod_of(stream, p)["metadata"]["uid"] for p in hit}
        began = time.monotonic()
        with nodes.killed(victim):
            since = nodes.wait_until_not_ready(victim)
            load.begin("the node is dead")
            for partition in hit:
                wait_until_moved(stream, partition, pods[partition], victim)
            print(f"node dead: {len(hit)} moved, ready {time.monotonic() - began:.1f} s after")
            for partition in hit:
                assert_moved_in_time(stream, partition, since, victim, not_before=NOT_READY_AFTER)
            assert victim in stream.wait_for_events("NodeNotReady")["NodeNotReady"]
            assert_told(stream, victim)
            load.begin("they have moved")
            load.wait_until_filled()
            before.assert_same_volumes()
            assert [stream.starts()[p] for p in hit] == ["Tail"] * len(hit)
    load.judged()
    stream.wait_until_ready()


@pytest.mark.matrix  # the evictions of test_failover_pods.py
@pytest.mark.alone
def test_a_drained_node_gives_up_one_worker_of_a_stream_at_a_time(
    streams: CreateStream, nodes: Nodes, release: Environment
) -> None:
    stream = started(streams, partitions=3)
    before = Before.of(stream)
    places = [node_of(stream, partition) for partition in range(3)]
    victim = max(set(places), key=places.count)
    hit = {partition for partition, place in enumerate(places) if place == victim}
    assert len(hit) > 1

    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        began = time.monotonic()
        with PodsWatched(release, stream) as pods, nodes.drained(victim):
            stream.wait_until(
                lambda: are_elsewhere(stream, victim), "all of them are ready elsewhere"
            )
            print(f"node drained: {len(hit)} moved in {time.monotonic() - began:.1f} s")
            load.begin("the node is empty")
            load.wait_until_filled()
        assert set(pods.replaced) == hit
        assert pods.most_unready == 1
        before.assert_same_volumes()
        assert stream.starts() == ["Tail"] * 3
        assert all(one.failover is None for one in stream.status().partitions)
    load.judged()


def started(streams: CreateStream, *, partitions: int) -> ClusterStream:
    """A stream that is ready, and whose stores hold something that not even a power loss takes away."""
    stream = streams(partitions=partitions, **FAILOVER)
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED + 1, MESSAGES, partitions=partitions))
    stream.wait_until_passed()
    uids = stream.uids("pods")
    stream.kubectl("delete", "pods", "--selector", stream.selector)  # they flush as they end
    stream.wait_until(
        lambda: not set(uids.values()) & set(stream.uids("pods").values()), "they were replaced"
    )
    stream.wait_until_ready()
    return stream


def are_elsewhere(stream: ClusterStream, node: str) -> bool:
    pods = stream.children("pods")
    return len(pods) == stream.partitions and all(
        is_ready(pod) and pod["spec"]["nodeName"] != node for pod in pods
    )
