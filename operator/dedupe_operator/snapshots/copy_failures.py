"""Decide which failures of a copy are recorded: those that do not pass.

The checks and the removal of copies call it.
"""

from datetime import datetime, timedelta
from typing import Final

from dedupe_operator.snapshots.provider import ProviderError

# As long as a worker waits for a bucket before another source is chosen.
_PATIENCE: Final = timedelta(minutes=5)
_LASTING: Final = frozenset(
    {
        "AccessDenied",
        "AwsRefused",
        "BucketRefused",
        "CopyNotFound",
        "ManifestDamaged",
        "NoBucket",
        "RegionUnknown",
    }
)
"""Reasons that only a person can end."""

_Copy = tuple[str, int]
"""UID of the DedupeSnapshot, and partition."""


class CopyFailures:
    """Failures since when, by copy; they may be lost, and then begin again."""

    def __init__(self) -> None:
        self._since: dict[_Copy, datetime] = {}

    def lasting(self, copy: _Copy, error: ProviderError, now: datetime) -> str | None:
        """Return the text of a failure that lasts, None while it may pass."""
        since = self._since.setdefault(copy, now)
        if error.reason not in _LASTING and now - since < _PATIENCE:
            return None
        return f"{error.reason}: {error}"

    def ended(self, copy: _Copy) -> None:
        """Forget a copy's failure."""
        self._since.pop(copy, None)
