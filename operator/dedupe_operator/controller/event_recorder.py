"""Record the events of one stream: one that repeats counts up.

The reconciler keeps one `EventRecorder` for each stream. It follows the EventCorrelator of client-go
(https://pkg.go.dev/k8s.io/client-go/tools/record#EventCorrelator): the same event within ten minutes is the same
object, and many messages of one reason are combined.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from dedupe_crds.spec.stream import API_VERSION, KIND
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import FIELD_MANAGER, Object

_REPEATED_WITHIN: Final = timedelta(minutes=10)
_MESSAGES_OF_A_REASON: Final = 10
"""Messages of one reason that are separate events; the others are one event."""
_REMEMBERED: Final = 128
_LONGEST_MESSAGE: Final = 1024
_COMBINED: Final = "(combined from similar events)"

_Group = tuple[str, str, bool]
"""UID of the stream, reason and severity of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """An event as it was written last."""

    name: str
    first: datetime
    last: datetime
    count: int


class EventRecorder:
    """Writes the events of one stream. `now` returns the time of day in UTC."""

    def __init__(self, api: KubernetesApi, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now
        # By group and message; the one that was written last is the last.
        self._recorded: dict[tuple[_Group, str], _Recorded] = {}
        self._ongoing: set[str] = set()

    def emit(self, raw: Object, events: Sequence[StreamEvent]) -> None:
        """Write the events of a pass; stop silently at an error.

        The status shows the same. An ongoing one is written if the pass before had none of its reason, or failed.
        """
        self._ongoing &= {event.reason for event in events if event.ongoing}
        try:
            for event in events:
                if event.reason not in self._ongoing:
                    self._write(raw, event)
                if event.ongoing:
                    self._ongoing.add(event.reason)
        except KubernetesError:
            return

    def _write(self, raw: Object, event: StreamEvent) -> None:
        now = self._now()
        self._forget(now)
        group = (raw["metadata"]["uid"], event.reason, event.warning)
        key, message = (group, event.message), event.message
        of_group = sum(other == group for other, _ in self._recorded)
        if key not in self._recorded and of_group >= _MESSAGES_OF_A_REASON:
            key, message = (group, _COMBINED), f"{_COMBINED}: {message}"
        before = self._recorded.get(key)
        recorded = _Recorded(
            name=before.name if before else _name(raw, key, now),
            first=before.first if before else now,
            last=now,
            count=before.count + 1 if before else 1,
        )
        written = _event(raw, event, message, recorded)
        if before:
            self._api.apply(written)  # creates it again if the API server has deleted it
        else:
            self._api.create(written)
        self._recorded.pop(key, None)
        self._recorded[key] = recorded

    def _forget(self, now: datetime) -> None:
        """Forget what is too old to be repeated, and the oldest if there are too many."""
        recent = [
            (key, each)
            for key, each in self._recorded.items()
            if now - each.last <= _REPEATED_WITHIN
        ]
        self._recorded = dict(recent[-_REMEMBERED:])


def _name(raw: Object, key: tuple[_Group, str], now: datetime) -> str:
    digest = sha256(repr((key, now)).encode()).hexdigest()
    return f"{raw['metadata']['name']}.{digest[:16]}"


def _event(raw: Object, event: StreamEvent, message: str, recorded: _Recorded) -> Object:
    metadata = raw["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": recorded.name, "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": message[:_LONGEST_MESSAGE],
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": _written(recorded.first),
        "lastTimestamp": _written(recorded.last),
        "count": recorded.count,
    }


def _written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
