"""The names and labels by which the operator finds again what it made."""

from collections.abc import Mapping
from typing import Any, Final

from dedupe_crds.spec.stream import GROUP

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""

FIELD_MANAGER: Final = "dedupestream-operator"
STREAM: Final = f"{GROUP}/stream"
PARTITION: Final = f"{GROUP}/partition"

PAUSE: Final = f"{GROUP}/pause-reconciliation"
RESTART: Final = f"{GROUP}/restart"
WANTED_HASH: Final = f"{GROUP}/wanted-hash"
CONFIG_HASH: Final = f"{GROUP}/config-hash"

SCHEDULED: Final = f"{GROUP}/scheduled"
COPIES: Final = f"{GROUP}/copies"
"""The finalizer of a DedupeSnapshot whose copies are kept outside of the cluster."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"


def stream_labels(stream: str) -> dict[str, str]:
    """What every object of a stream carries."""
    return {
        "app.kubernetes.io/name": "dedupestream",
        "app.kubernetes.io/instance": stream,
        "app.kubernetes.io/component": "worker",
        "app.kubernetes.io/part-of": "dedupestream",
        MANAGED_BY: FIELD_MANAGER,
        STREAM: stream,
    }


def partition_labels(stream: str, partition: int) -> dict[str, str]:
    """What every object of one partition carries."""
    return {**stream_labels(stream), PARTITION: str(partition)}


def partition_name(stream: str, partition: int) -> str:
    """Name of a partition's StatefulSet and Service.

    >>> partition_name("orders", 7)
    'orders-7'
    """
    return f"{stream}-{partition}"


def claim_name(stream: str, partition: int, serial: int) -> str:
    """Name of a partition's volume claim; each new volume of a partition has the next serial.

    >>> claim_name("orders", 7, 1)
    'orders-7-1'
    """
    return f"{partition_name(stream, partition)}-{serial}"


def partition_of(labelled: Object) -> int | None:
    """The partition an object is about, None if it carries no such label."""
    labels: Mapping[str, str] = labelled["metadata"].get("labels") or {}
    text = labels.get(PARTITION, "")
    return int(text) if text.isdecimal() else None
