"""Read the events that explain why a stream's objects are not ready, sparingly.

The reconciler keeps one `EventReader` for each stream. A list of events costs the API server more than all other reads
of a pass, because it reads all of the namespace, whatever object is asked for.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import TOO_LONG, KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import EVENTS

_EVERY_SECONDS: Final = 30.0
# What happens to each pod that starts: no reason for one that does not.
_USUAL: Final = (
    "Scheduled",
    "Pulling",
    "Pulled",
    "Created",
    "Started",
    "Killing",
    "SuccessfulCreate",
)
_KEPT: Final = 1000
_READ: Final = (
    *("involvedObject", "reason", "message"),
    *("firstTimestamp", "lastTimestamp", "eventTime", "series"),
)
_FIELDS: Final = ",".join(f"reason!={reason}" for reason in _USUAL)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class EventReader:
    """Events of one namespace by object, at most 30 s old.

    `clock` returns seconds and never goes backward.
    """

    api: KubernetesApi
    clock: Callable[[], float]
    _events: list[Object] = field(default_factory=list, init=False)
    _read_at: float = field(default=float("-inf"), init=False)

    def about(self, subject: Object | None) -> list[Object]:
        """Return the events of an object, as last read. Raises KubernetesError."""
        if subject is None:
            return []
        metadata, now = subject["metadata"], self.clock()
        if now - self._read_at >= _EVERY_SECONDS:
            self._events, self._read_at = self._read(metadata["namespace"]), now
        return [
            each
            for each in self._events
            if (each.get("involvedObject") or {}).get("uid") == metadata["uid"]
        ]

    def _read(self, namespace: str) -> list[Object]:
        """Return the newest events; none if users have filled the namespace with them."""
        try:
            found = self.api.find(EVENTS, namespace, fields=_FIELDS)
        except KubernetesError as error:
            if error.reason != TOO_LONG:
                raise
            log.warning("the events of %s are not read: %s", namespace, error)
            return []
        newest = sorted(found, key=_last)[-_KEPT:]
        return [{name: each[name] for name in _READ if name in each} for each in newest]


def _last(event: Object) -> str:
    """Return when it happened last; newer events have other fields for it."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
    )
