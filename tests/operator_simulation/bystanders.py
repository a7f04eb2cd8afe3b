"""Objects of others that stand beside the simulated stream and must never change."""

from typing import Final

from dedupe_crds.spec.stream import API_VERSION
from dedupe_operator.kubernetes.names import COPIES, Object, partition_labels, stream_labels
from dedupe_operator.kubernetes.resources import PARTITIONS
from tests.operator_simulation.cluster import SimCluster
from tests.unit.operator.fake_cluster import Address
from tests.unit.operator.objects import NAMESPACE, STREAM, attachment, claim

OTHER: Final = "orders-eu"
"""Another stream, whose name begins as that of the simulated one."""


VOLUME_OF_OTHERS: Final = "volume-of-others"


def add_bystanders(cluster: SimCluster) -> dict[Address, Object]:
    """Add a class of volumes, and the objects of others; return these."""
    storage_class: Object = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    cluster.put({**storage_class, "metadata": {"name": "default"}, "allowVolumeExpansion": True})
    theirs = claim(f"{OTHER}-0-1")
    theirs["metadata"]["labels"] = partition_labels(OTHER, 0)
    unlabelled = claim("orders-0-backup")
    unlabelled["metadata"]["labels"] = {}
    entry = {"partition": 0, "phase": "Completed", "completed": "2026-11-01T11:00:00Z"}
    snapshot: Object = {
        "apiVersion": API_VERSION,
        "kind": "DedupeSnapshot",
        "metadata": {"name": "theirs", "namespace": NAMESPACE, "finalizers": [COPIES]},
        "spec": {"streamRef": {"name": OTHER}},
        "status": {"phase": "Completed", "provider": "S3", "partitions": [entry]},
    }
    group: Object = {
        "apiVersion": API_VERSION,
        "kind": PARTITIONS.kind,
        "metadata": {
            "name": f"{STREAM}-7",
            "namespace": NAMESPACE,
            "labels": stream_labels(STREAM),
        },
    }
    others = (group, theirs, unlabelled, snapshot, attachment(VOLUME_OF_OTHERS))
    kept = [cluster.put(each) for each in others]
    return {(each["kind"], each["metadata"]["name"]): each for each in kept}
