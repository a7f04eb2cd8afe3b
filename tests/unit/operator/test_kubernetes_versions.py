"""The API of every supported version of Kubernetes takes what the operator writes."""

import json
from typing import Any

import pytest

from dedupe_operator.kubernetes.names import Object
from tests.golden import FILES
from tests.support.kubernetes_schemas.schemas import KINDS, MINORS, refused
from tests.unit.operator.objects import NAMESPACE
from tests.unit.operator.scene import Scene

SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "orders-kafka", "namespace": NAMESPACE},
    "data": {"client.properties": ""},
}
EVERYTHING: dict[str, Any] = {
    "metadata.annotations": {"dedupestream.io/restart": "now"},
    "spec.kafka.configSecretRef": {"name": "orders-kafka"},
    "spec.output.filter": {"from": "JsonPath", "path": "$.country"},
    "spec.repartition": {"partitions": 3, "routers": {"replicas": 2}},
    "spec.storage": {"size": "40Gi", "storageClassName": "gp3", "reclaimPolicy": "Delete"},
    "spec.snapshots": {
        "provider": "S3",
        "s3": {
            "bucket": "copies",
            "region": "eu-central-1",
            "credentialsSecretRef": {"name": "orders-bucket"},
        },
    },
    "spec.worker": {
        "imagePullSecrets": [{"name": "mirror"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "high",
        "labels": {"team": "shop"},
        "annotations": {"note": "a"},
        "env": [{"name": "TZ", "value": "UTC"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "sidecars": [{"name": "logs", "image": "registry.example/logs:1"}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
    },
}
OF_EACH_STREAM = {
    "ConfigMap",
    "Event",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Secret",
    "Service",
    "ServiceAccount",
    "StatefulSet",
}


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("changes", [{}, EVERYTHING], ids=["defaults", "everything set"])
def test_every_object_of_a_stream_is_one_of_this_version(
    scene: Scene, changes: dict[str, Any], minor: str
) -> None:
    scene.cluster.add(SECRET)
    scene.cluster.add_stream(changes)
    scene.rest()
    written = [
        # Its status is what the fake cluster says.
        {name: value for name, value in each.items() if name != "status"}
        for each in scene.cluster.objects.values()
        if f"{each['apiVersion']} {each['kind']}" in KINDS
    ]
    assert refused(minor, written) == {}
    assert {each["kind"] for each in written} == OF_EACH_STREAM
    routers = [each for each in written if each["metadata"]["name"] == "orders-router"]
    assert len(routers) == (3 if changes else 0)


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("name", ["minimal", "full"])
def test_every_object_that_a_release_has_written_is_one_of_this_version(
    name: str, minor: str
) -> None:
    assert refused(minor, json.loads((FILES / f"children_{name}.json").read_text())) == {}
