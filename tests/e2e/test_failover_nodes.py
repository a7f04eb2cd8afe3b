"""Nodes that die, are cut off or are drained, while messages come: their workers go on elsewhere."""

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.cluster.environment import Environment
from tests.e2e.support.faults import Before, is_ready, pod_of, starts_of
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.nodes import Nodes, nodes_of
from tests.e2e.support.pods import PodsWatched
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.zombie import Zombie
from tests.faults.seed import SEED
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., ClusterStream]

NOT_READY_AFTER = timedelta(seconds=10)
FAILOVER = {"failover": {"nodeNotReadyAfter": f"{NOT_READY_AFTER.total_seconds():.0f}s"}}
MOVED_SECONDS = 240.0
MESSAGES = 300


@pytest.fixture
def nodes(release: Environment) -> Nodes:
    return nodes_of(release)


@pytest.mark.alone
def test_a_dead_nodes_workers_go_on_elsewhere_on_their_own_volumes(
    streams: CreateStream, nodes: Nodes
) -> None:
    stream = started(streams, partitions=2)
    before = Before.of(stream)
    victim = node_of(stream, 0)
    hit = [p for p in range(stream.partitions) if node_of(stream, p) == victim]
    nodes.keep_operator_away_from(victim)

    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        pods = {p: pod_of(stream, p)["metadata"]["uid"] for p in hit}
        began = time.monotonic()
        with nodes.killed(victim):
            since = nodes.wait_until_not_ready(victim)
            told = stream.wait_for_events("NodeNotReady")["NodeNotReady"]
            load.begin("the node is dead")
            for partition in hit:
                wait_until_moved(stream, partition, pods[partition], victim)
            print(f"node dead: {len(hit)} moved, ready {time.monotonic() - began:.1f} s after")
            for partition in hit:
                assert_moved_in_time(stream, partition, since, victim)
            assert victim in told
            assert_told(stream, victim)
            load.begin("they have moved")
            load.wait_until_filled()
            before.assert_same_volumes()
            assert [stream.starts()[p] for p in hit] == ["Tail"] * len(hit)
    load.judged()
    stream.wait_until_ready()


@pytest.mark.alone
@pytest.mark.matrix
def test_a_node_that_dies_with_the_operator_on_it_is_no_different(
    streams: CreateStream, nodes: Nodes
) -> None:
    stream = started(streams, partitions=1)
    before = Before.of(stream)
    victim = node_of(stream, 0)
    for other in set(nodes.names()) - {victim}:
        nodes.keep_operator_away_from(other)

    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        uid = pod_of(stream, 0)["metadata"]["uid"]
        began = time.monotonic()
        with nodes.killed(victim):
            since = nodes.wait_until_not_ready(victim)
            wait_until_moved(stream, 0, uid, victim)
            print(f"node dead with operator: ready {time.monotonic() - began:.1f} s after")
            assert_moved_in_time(stream, 0, since, victim)
            load.begin("it has moved")
            load.wait_until_filled()
            before.assert_same_volumes()
    load.judged()
    stream.wait_until_ready()


@pytest.mark.alone
def test_a_worker_on_a_node_that_is_cut_off_is_fenced_and_writes_no_more(
    streams: CreateStream, nodes: Nodes
) -> None:
    stream = started(streams, partitions=1)
    before = Before.of(stream)
    victim = node_of(stream, 0)
    nodes.keep_operator_away_from(victim)

    with LiveLoad(stream, SEED) as load:
        load.wait_until_filled()
        pod = pod_of(stream, 0)
        zombie = Zombie(nodes, pod)
        began = time.monotonic()
        with nodes.cut_off(victim):
            since = nodes.wait_until_not_ready(victim)
            load.begin("it is cut off")
            assert zombie.runs()
            stream.wait_until_passed()  # it works on, as nobody else does yet
            wait_until_moved(stream, 0, pod["metadata"]["uid"], victim)
            print(f"node cut off: moved, ready {time.monotonic() - began:.1f} s after")
            assert_moved_in_time(stream, 0, since, victim)
            assert_told(stream, victim)
            load.begin("another has taken over")
            zombie.wait_until_standing_by()  # its kubelet has started it again
            load.wait_until_filled()
            stream.wait_until_passed()
            assert zombie.last_write() <= taken_over_at(stream).timestamp()
            assert starts_of(pod_of(stream, 0)) == 0, "the old worker has fenced the new one"
            before.assert_same_volumes()
            assert stream.starts() == ["Tail"]
        stream.wait_until(lambda: not zombie.runs(), "its node has ended the old worker")
        load.begin("the node is back")
        load.wait_until_filled()
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


def node_of(stream: ClusterStream, partition: int) -> str:
    return str(pod_of(stream, partition)["spec"]["nodeName"])


def taken_over_at(stream: ClusterStream) -> datetime:
    """When the worker that runs now had fenced whoever was before it."""
    lines = stream.kubectl("logs", stream.pod_name(0)).splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    first, *_ = [line for line in logged if line["event"] == "catching up"]
    return datetime.fromisoformat(first["timestamp"])


def wait_until_moved(stream: ClusterStream, partition: int, uid: str, node: str) -> None:
    """Wait until another pod is ready on another node, and the operator says so."""

    def moved() -> bool:
        pod = stream.kubectl.find("pod", stream.pod_name(partition))
        if pod is None or pod["metadata"]["uid"] == uid or pod["spec"].get("nodeName") == node:
            return False
        told = stream.status().partitions[partition]
        return told.ready and told.node_name not in {node, None}  # it was ready there, too

    stream.wait_until(moved, f"partition {partition} has moved", deadline_seconds=MOVED_SECONDS)


def assert_moved_in_time(stream: ClusterStream, partition: int, since: datetime, node: str) -> None:
    """By the API server's clock it was left where it was for as long as the stream says."""
    made = datetime.fromisoformat(pod_of(stream, partition)["metadata"]["creationTimestamp"])
    assert made - since >= NOT_READY_AFTER, f"moved {made - since} after {since}"
    failover = stream.status().partitions[partition].failover
    assert failover is not None
    assert failover.node == node
    assert "NotReady" in failover.reason
    assert failover.time - since >= NOT_READY_AFTER


def assert_told(stream: ClusterStream, node: str) -> None:
    told = stream.wait_for_events("PodForceDeleted", "VolumeDetached", "NodeNotReady")
    assert node in told["PodForceDeleted"]
    assert node in told["VolumeDetached"]
