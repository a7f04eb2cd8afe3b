"""Whole looks at a stream while the API server refuses something, or answers slowly."""

from typing import Any

import pytest
from prometheus_client import REGISTRY

from dedupe_crds.annotations import PARTITION
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import SECRETS, Resource
from tests.unit.operator.fake_kafka import FakeKafka
from tests.unit.operator.scene import KEY, Scene

QUOTA = KubernetesError("QuotaExceeded", "exceeded quota: small, requested: count/configmaps=1")
ROUTED = {"spec.repartition.partitions": 2}


def refuse(scene: Scene, kind: str) -> None:
    """Refuse to create any object of a kind, as a full quota does."""
    create = scene.cluster.apply

    def apply(wanted: Object, *, subresource: str | None = None) -> Object:
        address = (wanted["kind"], wanted["metadata"]["name"])
        if address[0] == kind and address not in scene.cluster.objects:
            raise QUOTA
        return create(wanted, subresource=subresource)

    scene.cluster.apply = apply  # type: ignore[method-assign]


def mounted_configs(scene: Scene) -> set[str]:
    return {
        volume["configMap"]["name"]
        for each in scene.stateful_sets()
        for volume in each["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "config"
    }


@pytest.mark.parametrize("changes", [{}, ROUTED], ids=["direct", "routers"])
def test_a_refused_config_restarts_nobody_and_a_lost_volume_is_made_again(
    scene: Scene, changes: dict[str, Any]
) -> None:
    scene.cluster.add_stream(changes)
    scene.rest()
    before = mounted_configs(scene)
    revisions = {each["metadata"]["name"]: each["spec"] for each in scene.stateful_sets()}
    apply = scene.cluster.apply
    refuse(scene, "ConfigMap")
    # Routers read it, and so do workers.
    scene.cluster.add_stream({**changes, "spec.kafka.bootstrapServers": "other:9092"})
    for _ in range(3):
        scene.look()
        scene.cluster.settle()
    assert mounted_configs(scene) == before
    assert {each["metadata"]["name"]: each["spec"] for each in scene.stateful_sets()} == revisions
    assert scene.cluster.condition("Degraded")["reason"] == "QuotaExceeded"

    scene.cluster.remove("PersistentVolumeClaim", "orders-0-1")
    for _ in range(3):
        scene.look()
        scene.cluster.settle()
    assert scene.mounted_claim("orders-0") == "orders-0-2"
    assert "orders-0-2" in scene.cluster.names("PersistentVolumeClaim")
    assert mounted_configs(scene) == before

    scene.cluster.apply = apply  # type: ignore[method-assign]
    scene.rest()
    assert not mounted_configs(scene) & before
    assert scene.cluster.condition("Ready")["status"] == "True"


def test_a_worker_that_never_ran_waits_for_all_that_it_shares(scene: Scene) -> None:
    refuse(scene, "PodDisruptionBudget")
    for _ in range(3):
        scene.look()
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-1", "orders-1-1"]
    assert scene.cluster.names("StatefulSet") == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KubernetesError("Forbidden", 'secrets "orders-admin" is forbidden'), "Forbidden"),
        (RuntimeError("list index out of range"), "OperatorFailed"),
    ],
)
def test_passes_that_all_fail_are_told_and_one_alone_is_not(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    scene.rest()
    scene.cluster.remove("StatefulSet", "orders-0")
    get = scene.cluster.get

    def refused(resource: Resource, namespace: str | None, name: str) -> Object | None:
        if resource is SECRETS:
            raise error
        return get(resource, namespace, name)

    def fail(seconds: float) -> str:
        scene.clock.now += seconds
        with pytest.raises(type(error)):
            scene.reconciler.reconcile(KEY)
        return str(scene.cluster.condition("Ready")["status"])

    with monkeypatch.context() as patch:
        patch.setattr(scene.cluster, "get", refused)
        assert [fail(1), fail(1), fail(1)] == ["True", "True", "Unknown"]
        ready, degraded = scene.cluster.condition("Ready"), scene.cluster.condition("Degraded")
        assert (ready["reason"], degraded["reason"], degraded["status"]) == (reason, reason, "True")
        assert str(error)[1:] in degraded["message"]
        assert scene.cluster.status["reason"] == reason
        labels = {"namespace": KEY.namespace, "stream": KEY.name}
        assert REGISTRY.get_sample_value("dedupe_operator_stream_ready", labels) == 0
        version = scene.cluster.get_copy("DedupeStream", KEY.name)
        fail(1)
        assert scene.cluster.get_copy("DedupeStream", KEY.name) == version, "it is written once"
    scene.rest()
    assert scene.cluster.condition("Ready")["status"] == "True"
    assert scene.cluster.condition("Degraded")["status"] == "False"
    with monkeypatch.context() as patch:
        patch.setattr(scene.cluster, "get", refused)
        assert [fail(1), fail(60)] == ["True", "Unknown"], "a slow one is told after a minute"
    scene.rest()


def test_a_stray_pod_among_many_that_are_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = FakeKafka(30)
    monkeypatch.setattr("dedupe_operator.kafka_asks.Cluster", kafka)
    scene = Scene(kafka)
    scene.cluster.add_stream()
    scene.rest()
    del scene.cluster.one("Pod", "orders-25-0")["metadata"]["labels"]
    for name in scene.cluster.names("Pod"):
        if name != "orders-25-0":
            scene.cluster.remove("Pod", name)
    for _ in range(4):
        scene.look()
    assert scene.cluster.names("Pod") == []
    scene.cluster.objects.clear()
    scene.look()


def test_a_stream_with_the_name_of_anothers_routers_is_told_whose_it_is(scene: Scene) -> None:
    labels = {"dedupestream.io/routers-of": "billing"}
    theirs: Object = {"metadata": {"name": "orders", "namespace": KEY.namespace, "labels": labels}}
    scene.cluster.add({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **theirs})
    scene.look()
    ready = scene.cluster.condition("Ready")
    assert ready["reason"] == "NameTaken"
    assert (
        "PodDisruptionBudget shop/orders belongs to the routers of stream billing"
        in (ready["message"])
    )


def refused_expansion(scene: Scene) -> None:
    scene.cluster.add({"kind": "StorageClass", "metadata": {"name": "default"}})
    scene.cluster.add_stream({"spec.storage": {"size": "40Gi"}})


def pods_gone(scene: Scene) -> None:
    for name in scene.cluster.names("Pod"):
        scene.cluster.remove("Pod", name)


def claims_gone(scene: Scene) -> None:
    for name in scene.cluster.names("PersistentVolumeClaim"):
        scene.cluster.remove("PersistentVolumeClaim", name)


def labels_gone(scene: Scene) -> None:
    for name in scene.cluster.names("PersistentVolumeClaim"):
        del scene.cluster.one("PersistentVolumeClaim", name)["metadata"]["labels"][PARTITION]


@pytest.mark.parametrize(
    "happens", [lambda _: None, refused_expansion, pods_gone, claims_gone, labels_gone]
)
def test_a_look_reads_as_often_whatever_the_number_of_partitions(
    monkeypatch: pytest.MonkeyPatch,
    happens: Any,  # noqa: ANN401 # a function of the scene
) -> None:
    reads = {}
    for partitions in (1, 10, 100):
        kafka = FakeKafka(partitions)
        monkeypatch.setattr("dedupe_operator.kafka_asks.Cluster", kafka)
        scene = Scene(kafka)
        scene.cluster.add_stream()
        scene.rest()
        happens(scene)
        scene.cluster.reads = 0
        scene.look()
        # An object is looked for before it is made.
        reads[partitions] = scene.cluster.reads - len(scene.cluster.writes)
        scene.cluster.objects.clear()
        scene.look()
    assert reads[100] <= reads[1] + 12, reads
