"""An operator without failover, or without any right on what belongs to no namespace."""

from datetime import timedelta
from typing import Any

import pytest

from dedupe_operator.controller.reconciler import Reconciler
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import Resource
from tests.unit.operator.inline import kafka_parts
from tests.unit.operator.objects import NODE, NOW, RELEASE, node
from tests.unit.operator.scene import Scene


def narrow(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the scene an operator that the API server allows nothing outside of namespaces."""
    scene.rest()
    get, find = scene.cluster.get, scene.cluster.find

    def allowed(resource: Resource) -> None:
        if not resource.namespaced:
            raise KubernetesError("Forbidden", f"{resource.plural}: no right at the cluster scope")

    def get_allowed(resource: Resource, namespace: str | None, name: str) -> Object | None:
        allowed(resource)
        return get(resource, namespace, name)

    def find_allowed(resource: Resource, namespace: str | None, **selected: Any) -> list[Object]:  # noqa: ANN401 (as the API's)
        allowed(resource)
        return find(resource, namespace, **selected)

    monkeypatch.setattr(scene.cluster, "get", get_allowed)
    monkeypatch.setattr(scene.cluster, "find", find_allowed)
    scene.reconciler = Reconciler(
        *(scene.cluster, RELEASE, scene.workers, *kafka_parts(scene.clock)),
        clock=scene.clock,
        now=lambda: NOW,
        failover=False,
        cluster_scope=False,
    )


def lose_node(scene: Scene, *, deleted_for: timedelta | None) -> None:
    """The node of partition 0's pod is out; Kubernetes has deleted the pod, and nothing confirms it."""
    scene.cluster.add(node(NODE, status="Unknown", since=NOW - timedelta(hours=1)))
    pod = scene.cluster.one("Pod", "orders-0-0")
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    if deleted_for is not None:
        pod["metadata"]["deletionTimestamp"] = (NOW - deleted_for).isoformat()


def test_without_failover_no_pod_is_moved_and_no_node_is_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(scene, monkeypatch)
    lose_node(scene, deleted_for=None)
    scene.look()
    assert not [write for write in scene.cluster.writes if write[0] in {"force", "delete"}]
    assert scene.cluster.condition("Degraded")["reason"] != "Forbidden"


def test_a_pod_whose_end_nobody_confirms_is_reported_with_what_to_do(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(scene, monkeypatch)
    lose_node(scene, deleted_for=timedelta(seconds=59))
    scene.look()
    assert "FailoverOff" not in scene.cluster.condition("Degraded")["message"]
    lose_node(scene, deleted_for=timedelta(seconds=60))
    scene.look()
    degraded = scene.cluster.condition("Degraded")
    assert degraded["reason"] == "FailoverOff"
    assert "kubectl delete pod orders-0-0 --force" in degraded["message"]


def test_a_volume_grows_without_a_look_at_its_class(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(scene, monkeypatch)
    scene.cluster.add_stream({"spec.storage": {"size": "40Gi"}})
    scene.rest()
    assert scene.claimed_size() == "40Gi"


def test_a_class_that_refuses_to_grow_is_what_the_stream_says(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(scene, monkeypatch)
    refusal = KubernetesError("Forbidden", "the storageclass must support resize")
    scene.cluster.fails["PersistentVolumeClaim", "orders-0-1"] = refusal
    scene.cluster.add_stream({"spec.storage": {"size": "40Gi"}})
    scene.look()
    assert "must support resize" in scene.cluster.condition("Degraded")["message"]
