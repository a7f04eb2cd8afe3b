"""The newest warnings that Kubernetes has about the objects of a stream.

`diagnosis` calls it. Invariant: pure functions, without I/O.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from dedupe_kubectl.objects import Object

_COUNT_FOR: Final = timedelta(minutes=30)  # twice the longest back-off of a controller
_SHOWN: Final = 3


def of_partitions(
    events: Sequence[Object], now: datetime, stream: str, partitions: Iterable[int]
) -> tuple[str, ...]:
    """Return the newest warnings about the partitions' objects, each once."""
    name, which = re.escape(stream), "|".join(map(str, partitions))
    return _newest(
        events,
        now,
        {
            "StatefulSet": rf"{name}-({which})",
            "Pod": rf"{name}-({which})-0",
            "PersistentVolumeClaim": rf"{name}-({which})-[0-9]+",
        },
    )


def of_routers(events: Sequence[Object], now: datetime, stream: str) -> tuple[str, ...]:
    """Return the newest warnings about the routers' objects, each once."""
    name = f"{re.escape(stream)}-router"
    return _newest(events, now, {"StatefulSet": name, "Pod": rf"{name}-[0-9]+"})


def _newest(events: Sequence[Object], now: datetime, ours: Mapping[str, str]) -> tuple[str, ...]:
    since = (now - _COUNT_FOR).isoformat()
    warnings = [
        f"{event.get('reason')}: {event.get('message')}"
        for event in sorted(events, key=_time, reverse=True)
        if _time(event) > since
        and (pattern := ours.get(event["involvedObject"].get("kind", "")))
        and re.fullmatch(pattern, event["involvedObject"].get("name", ""))
    ]
    return tuple(dict.fromkeys(warnings))[:_SHOWN]


def _time(event: Object) -> str:
    """Return the last time of an event, in RFC 3339."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
