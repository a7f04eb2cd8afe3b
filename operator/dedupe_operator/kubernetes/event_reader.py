"""Read the events that explain why a stream's objects are not ready, sparingly.

The reconciler keeps one `EventReader` for each stream. A list of events costs the API server more than all other reads
of a pass: it filters those of a whole namespace.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import EVENTS

_EVERY_SECONDS: Final = 30.0
_FORGET_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Read:
    at: float
    events: list[Object]


@dataclass(slots=True)
class EventReader:
    """Events by object. One list is read in 30 s, of the object read longest ago.

    `clock` returns seconds and never goes backward.
    """

    api: KubernetesApi
    clock: Callable[[], float]
    _read: dict[str, _Read] = field(default_factory=dict, init=False)
    _asked: dict[str, float] = field(default_factory=dict, init=False)
    _last: float = field(default=float("-inf"), init=False)

    def about(self, subject: Object | None) -> list[Object]:
        """Return the events of an object, as last read. Raises KubernetesError."""
        if subject is None:
            return []
        metadata, now = subject["metadata"], self.clock()
        uid = str(metadata["uid"])
        self._asked[uid] = now
        if now - self._last >= _EVERY_SECONDS and self._is_next(uid):
            self._forget(now)
            fields = f"involvedObject.uid={uid}"
            events = self.api.find(EVENTS, metadata["namespace"], fields=fields)
            self._read[uid] = _Read(now, events)
            self._last = now
        read = self._read.get(uid)
        return read.events if read else []

    def _is_next(self, uid: str) -> bool:
        """Return whether no other object of the recent passes waits longer."""
        asked = [each for each in self._asked if self._asked[each] >= self._last]
        return uid == min(asked, key=lambda each: self._read[each].at if each in self._read else 0)

    def _forget(self, now: float) -> None:
        for uid, at in list(self._asked.items()):
            if now - at > _FORGET_SECONDS:
                self._asked.pop(uid)
                self._read.pop(uid, None)
