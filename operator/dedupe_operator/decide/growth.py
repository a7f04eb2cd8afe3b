"""Volumes that are to grow."""

from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.quantity import format_size, parse_size
from dedupe_operator.decide.trouble import Problem
from dedupe_operator.labels import Object

# Most drivers grow a file system while it is in use; a restart is for those that do not.
_PATIENCE: Final = timedelta(seconds=30)


def is_to_grow(live: Object | None, size: int) -> bool:
    """Whether a claim that has its volume asks for less than `size` bytes."""
    bound = live is not None and (live.get("status") or {}).get("phase") == "Bound"
    return bool(bound) and requested(live) < size


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
    """What went wrong while a volume grew."""
    for condition in _conditions(live):
        if condition["type"] in {"ControllerResizeError", "NodeResizeError"}:
            message = condition.get("message") or condition["type"]
            return Problem(reason="VolumeExpansionFailed", message=message)
    return None


def waits_for_restart(live: Object | None, now: datetime) -> bool:
    """Whether a volume has grown, and its file system does so only when its pod starts again."""
    for condition in _conditions(live):
        if condition["type"] == "FileSystemResizePending" and condition["status"] == "True":
            since = datetime.fromisoformat(condition["lastTransitionTime"])
            return now - since > _PATIENCE
    return False


def _conditions(live: Object | None) -> list[Object]:
    return ((live or {}).get("status") or {}).get("conditions") or []
