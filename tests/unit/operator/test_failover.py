"""Whole looks at a stream whose nodes fail."""

import itertools
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedupe_crds.status.worker import Phase
from dedupe_operator import metrics
from dedupe_operator.controller.reconciler import (
    PROBLEM_RETRY_SECONDS,
    RESYNC_SECONDS,
    ROLLOUT_POLL_SECONDS,
)
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import NODES, Resource
from tests.unit.operator.objects import (
    NAMESPACE,
    NODE,
    NOW,
    STREAM,
    attachment,
    node,
    worker_status,
)
from tests.unit.operator.scene import Scene

OTHER = "node-2"
VOLUMES = ("pv-of-orders-0-1", "pv-of-orders-1-1")


@pytest.fixture
def running(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Partition 0 on a node of its own, partition 1 on another; it is NOW until time passes."""
    pass_time(monkeypatch, 0)
    scene.rest()
    scene.cluster.add(node(OTHER))
    scene.cluster.one("Pod", "orders-1-0")["spec"]["nodeName"] = OTHER
    for volume, name in zip(VOLUMES, (NODE, OTHER), strict=True):
        scene.cluster.add(attachment(volume, to=name))
    return scene


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def fail(scene: Scene, name: str = NODE, *, for_seconds: float, status: str = "Unknown") -> None:
    """A node is out for some time, and Kubernetes has marked its pods."""
    scene.cluster.add(node(name, status=status, since=ago(for_seconds)))
    for pod in pods(scene):
        if pod["spec"].get("nodeName") == name:
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def pods(scene: Scene) -> list[Object]:
    return [scene.cluster.one("Pod", name) for name in scene.cluster.names("Pod")]


def moved(scene: Scene) -> list[tuple[str, str, str]]:
    return [
        write
        for write in scene.cluster.writes
        if write[0] == "force" or write[1] == "VolumeAttachment"
    ]


def failover_of(scene: Scene, partition: int) -> Object | None:
    found: Object | None = scene.cluster.status["partitions"][partition].get("failover")
    return found


def test_at_rest_neither_nodes_nor_attachments_are_read(
    running: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.rest()
    asked: list[str] = []
    get, find = running.cluster.get, running.cluster.find

    def noted_get(resource: Resource, namespace: str | None, name: str) -> Object | None:
        asked.append(resource.kind)
        return get(resource, namespace, name)

    def noted_find(resource: Resource, namespace: str | None, **how: Any) -> list[Object]:  # noqa: ANN401 (as the API's)
        asked.append(resource.kind)
        return find(resource, namespace, **how)

    monkeypatch.setattr(running.cluster, "get", noted_get)
    monkeypatch.setattr(running.cluster, "find", noted_find)
    assert running.look() == RESYNC_SECONDS
    assert "Pod" in asked
    assert not {"Node", "VolumeAttachment"} & set(asked)


def test_a_worker_on_a_node_that_is_out_is_left_there_for_its_time(running: Scene) -> None:
    fail(running, for_seconds=50)
    wait = running.look()
    assert moved(running) == []
    assert wait is not None
    assert ROLLOUT_POLL_SECONDS <= wait <= 11
    degraded = running.cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "NodeNotReady")
    assert f"artition 0: node {NODE} is NotReady" in degraded["message"]
    assert running.cluster.status["partitions"][0]["phase"] == "Failed"
    assert failover_of(running, 0) is None


def test_what_is_far_off_is_looked_at_as_any_trouble(running: Scene) -> None:
    fail(running, for_seconds=1)
    assert running.look() == PROBLEM_RETRY_SECONDS


def test_a_worker_is_moved_and_its_volume_let_go_when_the_time_is_over(running: Scene) -> None:
    counter = metrics.FAILOVERS.labels(NAMESPACE, STREAM)
    before = counter._value.get()  # noqa: SLF001 # the client has no other way to read one
    fail(running, for_seconds=61)
    assert running.look() == ROLLOUT_POLL_SECONDS
    assert moved(running) == [
        ("force", "Pod", "orders-0-0"),
        ("delete", "VolumeAttachment", f"csi-{VOLUMES[0]}-{NODE}"),
    ]
    assert counter._value.get() - before == 1  # noqa: SLF001
    found = failover_of(running, 0)
    assert found is not None
    assert found["node"] == NODE
    assert "NotReady (Kubelet stopped posting node status)" in found["reason"]
    assert failover_of(running, 1) is None
    told = {one["reason"]: one for one in events(running)}
    assert told["PodForceDeleted"]["type"] == told["VolumeDetached"]["type"] == "Warning"
    assert f"node {NODE} is NotReady" in told["PodForceDeleted"]["message"]
    assert VOLUMES[0] in told["VolumeDetached"]["message"]


@pytest.mark.parametrize("phase", ["Pending", "Lost"])
def test_a_claim_that_names_a_strangers_volume_has_no_volume_let_go(
    running: Scene, phase: str
) -> None:
    """Anyone who may create a claim chooses its labels and volumeName; only Kubernetes says that it is bound."""
    running.cluster.one("PersistentVolumeClaim", "orders-0-1")["status"] = {"phase": phase}
    fail(running, for_seconds=61)
    running.look()
    assert [write for write in moved(running) if write[1] == "VolumeAttachment"] == []


def events(scene: Scene) -> list[Object]:
    return [scene.cluster.one("Event", name) for name in scene.cluster.names("Event")]


def test_once_moved_it_stays_on_record_and_nothing_more_is_done(running: Scene) -> None:
    fail(running, for_seconds=61)
    running.look()
    found = failover_of(running, 0)
    running.cluster.settle()
    running.cluster.one("Pod", "orders-0-0")["spec"]["nodeName"] = OTHER
    assert running.rest() == RESYNC_SECONDS
    assert moved(running) == []
    assert failover_of(running, 0) == found
    assert running.cluster.status["partitions"][0]["phase"] == "Running"


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_pod_on_its_way_out_is_moved_too(running: Scene, status: str) -> None:
    fail(running, for_seconds=61, status=status)
    running.cluster.one("Pod", "orders-0-0")["metadata"]["deletionTimestamp"] = (
        "2026-11-01T12:00:00Z"
    )
    running.look()
    assert ("force", "Pod", "orders-0-0") in moved(running)


def test_a_pod_that_is_not_ready_on_a_ready_node_is_not_moved(running: Scene) -> None:
    fail(running, for_seconds=3600, status="True")
    running.look()
    assert moved(running) == []
    assert running.cluster.condition("Degraded")["reason"] != "NodeNotReady"


def test_a_node_that_is_gone_gets_its_time_too(
    running: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(running, for_seconds=3600)
    running.cluster.remove("Node", NODE)
    running.look()
    assert moved(running) == []
    assert "does not exist any more" in running.cluster.condition("Degraded")["message"]
    pass_time(monkeypatch, 59)
    running.look()
    assert moved(running) == []
    pass_time(monkeypatch, 61)
    running.look()
    assert [kind for _, kind, _ in moved(running)] == ["Pod", "VolumeAttachment"]


def pass_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """From now on it is so much later than NOW."""
    later = NOW + timedelta(seconds=seconds)

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override] # as it is called
            assert tz is UTC
            return later

    monkeypatch.setattr("dedupe_operator.controller.reconciler.datetime", Later)


def test_a_volume_that_was_not_let_go_is_let_go_later(running: Scene) -> None:
    """As after an operator that was killed between its two writes."""
    fail(running, for_seconds=61)
    running.cluster.keeps["VolumeAttachment", f"csi-{VOLUMES[0]}-{NODE}"] = KubernetesError(
        "Forbidden", "cannot delete resource volumeattachments"
    )
    running.look()
    assert running.cluster.condition("Degraded")["reason"] == "Forbidden"
    running.cluster.keeps.clear()
    running.cluster.settle()
    follower = running.cluster.one("Pod", "orders-0-0")
    follower["spec"]["nodeName"] = OTHER
    follower["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    running.restart_operator()
    running.look()
    assert moved(running) == [("delete", "VolumeAttachment", f"csi-{VOLUMES[0]}-{NODE}")]
    assert failover_of(running, 0) is not None


class Killed(BaseException):
    """The operator is gone."""


@pytest.mark.parametrize("writes", range(1, 9))
def test_an_operator_killed_after_any_of_its_writes_leaves_nothing_undone(
    running: Scene, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    fail(running, for_seconds=61)
    with monkeypatch.context() as patched:
        kill_after(running, patched, writes)
        with suppress(Killed):
            running.look()
    running.restart_operator()
    for _ in range(4):
        running.look()
        running.cluster.settle()
        follower = running.cluster.one("Pod", "orders-0-0")
        if follower["spec"]["nodeName"] == NODE and "podIP" in follower["status"]:
            follower["spec"]["nodeName"] = OTHER
            follower["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    follower["status"]["conditions"][0]["status"] = "True"
    running.rest()
    assert running.cluster.names("VolumeAttachment") == [f"csi-{VOLUMES[1]}-{OTHER}"]
    found = failover_of(running, 0)
    assert found is not None
    assert found["node"] == NODE
    assert [one["phase"] for one in running.cluster.status["partitions"]] == ["Running"] * 2


def kill_after(scene: Scene, patched: pytest.MonkeyPatch, writes: int) -> None:
    """Have the operator end right after one of its writes."""
    left = itertools.count(writes - 1, -1)
    for name in ("apply", "create", "delete", "patch_metadata"):
        write = getattr(scene.cluster, name)

        def counted(*given: object, write: Callable[..., object] = write, **how: object) -> object:
            done = write(*given, **how)
            if next(left) == 0:
                raise Killed
            return done

        patched.setattr(scene.cluster, name, counted)


def test_a_pod_that_waits_for_its_volume_takes_it_from_no_node_that_is_well(running: Scene) -> None:
    pod = running.cluster.one("Pod", "orders-0-0")
    pod["spec"]["nodeName"] = OTHER
    pod["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    running.look()
    assert moved(running) == []


def test_a_worker_that_was_fenced_by_nobody_kubernetes_knows_gets_another_pod(
    running: Scene,
) -> None:
    pod = running.cluster.one("Pod", "orders-0-0")
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    pod["status"]["containerStatuses"][0]["state"] = {
        "running": {"startedAt": "2026-11-01T11:00:00Z"}
    }
    running.workers.say[0] = worker_status(phase=Phase.FAILED, reason="Fenced", message="m")
    running.look()
    assert ("delete", "Pod", "orders-0-0") in running.cluster.writes
    assert "FencedPodReplaced" in running.cluster.told
    running.workers.say.clear()
    running.cluster.settle()
    assert running.rest() == RESYNC_SECONDS


def test_without_the_right_to_see_nodes_all_else_goes_on(
    running: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(running, for_seconds=61)
    read = running.cluster.get

    def refuse(resource: Resource, namespace: str | None, name: str) -> Object | None:
        if resource is NODES:
            raise KubernetesError("Forbidden", "the operator cannot get resource nodes")
        return read(resource, namespace, name)

    monkeypatch.setattr(running.cluster, "get", refuse)
    running.cluster.remove("Service", "orders-1")
    running.look()
    assert moved(running) == []
    assert ("apply", "Service", "orders-1") in running.cluster.writes
    assert "cannot get resource nodes" in running.cluster.condition("Degraded")["message"]


# -- too many nodes are out ------------------------------------------------------------------------


def add_nodes(scene: Scene, count: int) -> list[str]:
    """Nodes without workers of the stream, beside NODE and OTHER."""
    names = [f"spare-{number}" for number in range(count)]
    for name in names:
        scene.cluster.add(node(name))
    return names


def held_back() -> float:
    gauge = metrics.FAILOVERS_HELD_BACK.labels(NAMESPACE, STREAM)
    return float(gauge._value.get())  # noqa: SLF001 # the client has no other way to read one


def test_with_most_nodes_out_no_worker_is_killed_and_the_stream_says_why(running: Scene) -> None:
    add_nodes(running, 1)
    for name in (NODE, OTHER):
        fail(running, name, for_seconds=3600)
    running.look()
    assert moved(running) == []
    assert held_back() == 2
    degraded = running.cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "FailoverHeldBack")
    assert "2 of 3 nodes are not ready" in degraded["message"]
    assert "failover.maxNodesNotReadyPercent" in degraded["message"]
    assert failover_of(running, 0) is None


def test_with_half_of_the_nodes_out_as_one_of_two_workers_are_moved(running: Scene) -> None:
    fail(running, for_seconds=61)
    running.look()
    assert ("force", "Pod", "orders-0-0") in moved(running)
    assert held_back() == 0


def test_the_only_node_has_no_other_to_move_to(running: Scene) -> None:
    running.cluster.remove("Node", OTHER)
    running.cluster.one("Pod", "orders-1-0")["spec"]["nodeName"] = NODE
    fail(running, for_seconds=3600)
    running.look()
    assert moved(running) == []
    assert running.cluster.condition("Degraded")["reason"] == "FailoverHeldBack"


def test_nodes_of_the_control_plane_do_not_count(running: Scene) -> None:
    """Three that are well and run no workers would hide that all others are out."""
    for name in add_nodes(running, 3):
        taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
        running.cluster.one("Node", name)["spec"] = {"taints": [taint]}
    for name in (NODE, OTHER):
        fail(running, name, for_seconds=3600)
    running.look()
    assert moved(running) == []


def test_a_volume_stays_attached_too(running: Scene) -> None:
    """As after an operator that was killed between its two writes, before most nodes went out."""
    add_nodes(running, 1)
    fail(running, for_seconds=61)
    pod = running.cluster.one("Pod", "orders-0-0")
    pod["spec"]["nodeName"] = "spare-0"
    pod["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    fail(running, OTHER, for_seconds=1)
    running.look()
    assert moved(running) == []


def test_it_resumes_by_itself_once_the_nodes_that_come_back_had_their_time(
    running: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_nodes(running, 1)
    for name in (NODE, OTHER):
        fail(running, name, for_seconds=3600)
    running.look()
    pass_time(monkeypatch, 20)
    running.cluster.add(node(OTHER))
    running.look()
    assert moved(running) == []
    degraded = running.cluster.condition("Degraded")
    assert degraded["reason"] == "FailoverHeldBack"
    assert "resumes at 12:01:00Z" in degraded["message"]
    pass_time(monkeypatch, 60)
    running.look()
    assert [write for write in moved(running) if write[0] == "force"] == [
        ("force", "Pod", "orders-0-0")
    ]
    assert held_back() == 0


def test_a_clock_that_is_set_back_does_not_hold_for_hours(
    running: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_nodes(running, 1)
    for name in (NODE, OTHER):
        fail(running, name, for_seconds=7200)
    running.look()
    running.cluster.add(node(OTHER))
    pass_time(monkeypatch, -3600)
    running.look()
    assert ("force", "Pod", "orders-0-0") in moved(running)


def test_the_limit_can_be_raised(running: Scene) -> None:
    running.restart_operator(max_nodes_not_ready_percent=100)
    for name in (NODE, OTHER):
        fail(running, name, for_seconds=3600)
    running.look()
    assert [write[0] for write in moved(running)].count("force") == 2


def test_without_the_right_to_list_nodes_no_worker_is_moved_and_the_stream_says_so(
    running: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(running, for_seconds=61)
    find = running.cluster.find

    def forbidden(resource: Resource, namespace: str | None, **how: Any) -> list[Object]:  # noqa: ANN401 (as the API's)
        if resource is NODES:
            raise KubernetesError("Forbidden", "cannot list resource nodes")
        return find(resource, namespace, **how)

    monkeypatch.setattr(running.cluster, "find", forbidden)
    running.look()
    assert moved(running) == []
    assert running.cluster.condition("Degraded")["reason"] == "Forbidden"
