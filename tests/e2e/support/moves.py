"""Workers that move from a node: where they are, when they have moved, and what is told of it."""

import json
from datetime import datetime, timedelta

from tests.e2e.support.faults import pod_of
from tests.e2e.support.stream import ClusterStream


def node_of(stream: ClusterStream, partition: int) -> str:
    """The node of a partition's pod."""
    return str(pod_of(stream, partition)["spec"]["nodeName"])


def taken_over_at(stream: ClusterStream, partition: int) -> datetime:
    """When the worker that runs now had fenced whoever was before it."""
    lines = stream.kubectl("logs", stream.pod_name(partition)).splitlines()
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

    stream.wait_until(moved, f"partition {partition} has moved")


def assert_moved_in_time(
    stream: ClusterStream, partition: int, since: datetime, node: str, *, not_before: timedelta
) -> None:
    """By the API server's clock it was left where it was for as long as the stream says."""
    made = datetime.fromisoformat(pod_of(stream, partition)["metadata"]["creationTimestamp"])
    assert made - since >= not_before, f"moved {made - since} after {since}"
    failover = stream.status().partitions[partition].failover
    assert failover is not None
    assert failover.node == node
    assert "NotReady" in failover.reason
    assert failover.time - since >= not_before


def assert_told(stream: ClusterStream, node: str) -> None:
    """Events name the node, and what was done by force."""
    told = stream.wait_for_events("PodForceDeleted", "VolumeDetached", "NodeNotReady")
    assert node in told["PodForceDeleted"]
    assert node in told["VolumeDetached"]
