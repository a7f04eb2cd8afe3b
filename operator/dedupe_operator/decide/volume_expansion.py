"""Volumes that are to grow."""

from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.quantity import format_size, parse_size
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.volume_claims import is_bound
from dedupe_operator.kubernetes.names import Object

# Most drivers grow a file system while it is in use; a restart is for those that do not.
_PATIENCE: Final = timedelta(seconds=30)


def is_to_grow(live: Object | None, size: int) -> bool:
    """Whether a claim that has its volume asks for less than `size` bytes."""
    return is_bound(live) and requested(live) < size


def requested(live: Object | None) -> int:
    """The bytes a claim asks for; 0 without a claim."""
    return parse_size(live["spec"]["resources"]["requests"]["storage"]) if live else 0


def refusal(live: Object, size: int, storage_class: Object | None) -> Problem | None:
    """Why a claim can't grow to `size` bytes, if its class does not let it."""
    if storage_class is not None and storage_class.get("allowVolumeExpansion"):
        return None
    name = live["spec"].get("storageClassName")
    return Problem(
        reason="VolumeExpansionNotAllowed",
        message=f"volume claims can't grow from {format_size(requested(live))} to {format_size(size)}: StorageClass "
        f"{name} does not set allowVolumeExpansion; set it, or put spec.storage.size back",
    )


def failure(live: Object | None) -> Problem | None:
    """What went wrong while a volume grew. A node's error counts once no restart can help."""
    found = {one["type"]: one for one in _conditions(live) if one["status"] == "True"}
    error = found.get("ControllerResizeError")
    if "FileSystemResizePending" not in found:
        error = error or found.get("NodeResizeError")
    if error is None:
        return None
    return Problem(
        reason="VolumeExpansionFailed", message=error.get("message") or "the volume did not grow"
    )


def waits_for_restart(live: Object | None, pod: Object, now: datetime) -> bool:
    """Whether a volume has grown, and its file system does so only when its pod starts again.

    A pod that was made since then has started again: its file system grows before its container is made.
    """
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    for condition in _conditions(live):
        if condition["type"] == "FileSystemResizePending" and condition["status"] == "True":
            since = datetime.fromisoformat(condition["lastTransitionTime"])
            return now - since > _PATIENCE and created <= since
    return False


def _conditions(live: Object | None) -> list[Object]:
    return ((live or {}).get("status") or {}).get("conditions") or []
