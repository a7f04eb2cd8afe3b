"""The kinds of Kubernetes objects that the operator uses, with API paths.

Used by `KubernetesApi` and by every module that calls it.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from dedupe_crds.openapi import PARTITIONS_PLURAL, PLURAL, SNAPSHOT_PLURAL
from dedupe_crds.spec.stream import API_VERSION, KIND
from dedupe_crds.status.partitions import KIND as PARTITIONS_KIND
from dedupe_crds.status.snapshot import KIND as SNAPSHOT_KIND
from dedupe_operator.kubernetes.names import Object


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object in the API."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """Return the path of one object or, without a name, of the collection.

        Without a namespace it is the collection of all namespaces.
        """
        prefix = "/api" if self.api_version == "v1" else "/apis"
        parts = [prefix, self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        return "/".join(parts if name is None else [*parts, quote(name, safe="")])


STREAMS: Final = Resource(API_VERSION, KIND, PLURAL)
SNAPSHOTS: Final = Resource(API_VERSION, SNAPSHOT_KIND, SNAPSHOT_PLURAL)
PARTITIONS: Final = Resource(API_VERSION, PARTITIONS_KIND, PARTITIONS_PLURAL)
STATEFUL_SETS: Final = Resource("apps/v1", "StatefulSet", "statefulsets")
PODS: Final = Resource("v1", "Pod", "pods")
CLAIMS: Final = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICES: Final = Resource("v1", "Service", "services")
CONFIG_MAPS: Final = Resource("v1", "ConfigMap", "configmaps")
SECRETS: Final = Resource("v1", "Secret", "secrets")
SERVICE_ACCOUNTS: Final = Resource("v1", "ServiceAccount", "serviceaccounts")
BUDGETS: Final = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
EVENTS: Final = Resource("v1", "Event", "events")
VOLUME_SNAPSHOTS: Final = Resource(
    "snapshot.storage.k8s.io/v1", "VolumeSnapshot", "volumesnapshots"
)
PERSISTENT_VOLUMES: Final = Resource(
    "v1", "PersistentVolume", "persistentvolumes", namespaced=False
)
STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False
)
NAMESPACES: Final = Resource("v1", "Namespace", "namespaces", namespaced=False)
NODES: Final = Resource("v1", "Node", "nodes", namespaced=False)
ATTACHMENTS: Final = Resource(
    "storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", namespaced=False
)

_BY_KIND: Final = {
    resource.kind: resource
    for resource in (
        STREAMS,
        SNAPSHOTS,
        PARTITIONS,
        VOLUME_SNAPSHOTS,
        STATEFUL_SETS,
        CLAIMS,
        PERSISTENT_VOLUMES,
        SERVICES,
        CONFIG_MAPS,
        SECRETS,
        SERVICE_ACCOUNTS,
        BUDGETS,
        EVENTS,
    )
}


def resource_of(wanted: Object) -> Resource:
    """Return the resource of an object that the operator creates."""
    return _BY_KIND[wanted["kind"]]
