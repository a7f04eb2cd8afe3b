"""Decide how a volume expands to a larger spec.storage.size.

The applier calls it for each claim.
"""

from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.quantity import format_size, parse_size
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.volume_claims import is_bound
from dedupe_operator.kubernetes.names import Object

# Most drivers expand a file system while it is in use; a restart is for those that do not.
_PATIENCE: Final = timedelta(seconds=30)


def needs_expansion(live: Object | None, size: int) -> bool:
    """Return whether a claim that has its volume requests less than `size` bytes."""
    return is_bound(live) and requested(live) < size


def requested(live: Object | None) -> int:
    """Return the bytes that a claim requests, 0 without a claim."""
    return parse_size(live["spec"]["resources"]["requests"]["storage"]) if live else 0


def refusal(live: Object, size: int, storage_class: Object | None) -> Problem | None:
    """Return why a claim can't expand to `size` bytes, None if its class allows it."""
    if storage_class is not None and storage_class.get("allowVolumeExpansion"):
        return None
    name = live["spec"].get("storageClassName")
    return Problem(
        reason="VolumeExpansionNotAllowed",
        message=f"PVCs can't expand from {format_size(requested(live))} to {format_size(size)}: StorageClass "
        f"{name} does not set allowVolumeExpansion; set it, or restore the old spec.storage.size",
    )


def failure(live: Object | None) -> Problem | None:
    """Return the problem of a failed expansion, None without one.

    A node's error counts only when a restart can't help any more.
    """
    found = {each["type"]: each for each in _conditions(live) if each["status"] == "True"}
    error = found.get("ControllerResizeError")
    if "FileSystemResizePending" not in found:
        error = error or found.get("NodeResizeError")
    if error is None:
        return None
    return Problem(
        reason="VolumeExpansionFailed",
        message=error.get("message") or "the volume was not expanded",
    )


def needs_restart(live: Object | None, pod: Object, now: datetime) -> bool:
    """Return whether a file system expands only at the next start of its pod.

    A pod created since the expansion counts as restarted: the file system expands before its container starts.
    """
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    for condition in _conditions(live):
        if condition["type"] == "FileSystemResizePending" and condition["status"] == "True":
            since = datetime.fromisoformat(condition["lastTransitionTime"])
            return now - since > _PATIENCE and created <= since
    return False


def _conditions(live: Object | None) -> list[Object]:
    return ((live or {}).get("status") or {}).get("conditions") or []
