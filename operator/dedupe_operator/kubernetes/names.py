"""Names and labels by which the operator finds the objects that it created.

Keys that other parts of the project use too are in `dedupe_crds.annotations`.
"""

from collections.abc import Mapping
from typing import Any, Final

from dedupe_crds.annotations import PARTITION, ROUTERS_OF, STREAM
from dedupe_crds.spec.repartition import MOST_PARTITIONS
from dedupe_crds.spec.stream import GROUP

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""

FIELD_MANAGER: Final = "dedupestream-operator"
WANTED_HASH: Final = f"{GROUP}/wanted-hash"
CONFIG_HASH: Final = f"{GROUP}/config-hash"
RELEASE: Final = f"{GROUP}/release"
"""On a StatefulSet: a hash of what the operator's installation gives to its pods, so that an upgrade shows."""
RESTORE_REQUEST: Final = f"{GROUP}/restore-request"
"""On a claim: the id of the restore request that it answers, so that a lost status does not repeat it."""
SERVED: Final = f"{GROUP}/served-partitions"
"""On a claim: how many partitions its stream has, so that one deleted while it began does not return with fewer."""

SNAPSHOT_UID: Final = f"{GROUP}/snapshot-uid"
"""On a copy: the UID of the DedupeSnapshot it belongs to."""
SCHEDULED: Final = f"{GROUP}/scheduled"
COPIES: Final = f"{GROUP}/copies"
"""The finalizer of a DedupeSnapshot whose copies are stored outside of the cluster."""

ZONE: Final = "topology.kubernetes.io/zone"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OURS: Final = {MANAGED_BY: FIELD_MANAGER}
"""The labels of all objects that the operator writes for a stream."""
INSTANCE: Final = "app.kubernetes.io/instance"

NOT_PRUNED: Final = {
    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}
"""Annotations of objects that may outlive their stream: Argo CD and Flux must not delete them."""


def stream_labels(stream: str) -> dict[str, str]:
    """Return the labels of every object of a stream."""
    return {
        "app.kubernetes.io/name": "dedupestream",
        INSTANCE: stream,
        "app.kubernetes.io/component": "worker",
        "app.kubernetes.io/part-of": "dedupestream",
        **OURS,
        STREAM: stream,
    }


def partition_labels(stream: str, partition: int) -> dict[str, str]:
    """Return the labels of every object of one partition."""
    return {**stream_labels(stream), PARTITION: str(partition)}


def lasting_labels(stream: str, partition: int | None = None) -> dict[str, str]:
    """Return the labels of an object that may outlive its stream.

    Without INSTANCE: Argo CD takes an object with that label and without an owner for its own, and prunes it.
    """
    labels = {**OURS, STREAM: stream}
    return labels if partition is None else {**labels, PARTITION: str(partition)}


def is_prunable(metadata: Object) -> bool:
    """Return whether Argo CD or Flux may delete an object that must stay."""
    annotations = metadata.get("annotations") or {}
    return (
        INSTANCE in (metadata.get("labels") or {}) or not NOT_PRUNED.items() <= annotations.items()
    )


def router_labels(stream: str) -> dict[str, str]:
    """Return the labels of the objects that all routers of a stream share."""
    return {**stream_labels(stream), "app.kubernetes.io/component": "router"}


def router_pod_labels(stream: str) -> dict[str, str]:
    """Return the labels of a router's pod, which nothing that selects workers matches."""
    labels = {**router_labels(stream), ROUTERS_OF: stream}
    del labels[STREAM]
    return labels


def routers_name(stream: str) -> str:
    """Return the name of the routers' StatefulSet, Service and PodDisruptionBudget.

    >>> routers_name("orders")
    'orders-router'
    """
    return f"{stream}-router"


def router_of(pod: Object, stream: str) -> int | None:
    """Return the number of the router in a pod of a stream, None for any other pod.

    >>> router_of({"metadata": {"name": "orders-router-2"}}, "orders")
    2
    """
    text = str(pod["metadata"]["name"]).removeprefix(f"{routers_name(stream)}-")
    return int(text) if text.isdecimal() else None


def partition_name(stream: str, partition: int) -> str:
    """Return the name of a partition's StatefulSet and Service.

    >>> partition_name("orders", 7)
    'orders-7'
    """
    return f"{stream}-{partition}"


def claim_name(stream: str, partition: int, serial: int) -> str:
    """Return the name of a partition's claim; each new volume gets the next serial.

    >>> claim_name("orders", 7, 1)
    'orders-7-1'
    """
    return f"{partition_name(stream, partition)}-{serial}"


def partition_of(labelled: Object) -> int | None:
    """Return the partition in an object's label, None without a possible one.

    A pass handles all partitions up to the highest, and users can write any number there.
    """
    labels: Mapping[str, str] = labelled["metadata"].get("labels") or {}
    text = labels.get(PARTITION, "")
    return int(text) if text.isdecimal() and int(text) < MOST_PARTITIONS else None
