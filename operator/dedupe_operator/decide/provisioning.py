"""Decide whether a volume can't be made from a copy, by the events of its claim.

The CSI provider calls it.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from dedupe_operator.kubernetes.names import Object

_FAILING_FOR: Final = timedelta(minutes=2)
# The driver tries again with a back-off of up to five minutes; an older event says nothing of now.
_RECENT: Final = timedelta(minutes=10)
# Any copy would fail for these, and the rebuild from the output topic too: they are waited for.
_NOT_OF_THE_COPY: Final = (
    "resourceexhausted",
    "resource exhausted",
    "insufficient",
    "no space",
    "not enough",
    "quota",
    "unavailable",
    "deadlineexceeded",
    "deadline exceeded",
    "topology",
    "storageclass",
)
# What csi-provisioner up to version 5 puts before every reason; it says nothing of the reason.
_PREFIX: Final = re.compile(r'failed to provision volume with StorageClass "[^"]*": ')


def provisioning_failure(events: Sequence[Object], now: datetime) -> str | None:
    """Return why no volume can be made from the copy; None while it may still be made.

    It has failed for some minutes, and not for lack of room, a quota or a driver that does not answer.
    """
    failed = [each for each in events if each.get("reason") == "ProvisioningFailed"]
    failed = [each for each in failed if now - _last(each, now) < _RECENT]
    if not failed:
        return None
    newest = max(failed, key=lambda each: _last(each, now))
    message = _PREFIX.sub("", str(newest.get("message", "")))
    if any(word in message.lower() for word in _NOT_OF_THE_COPY):
        return None
    if now - min(_first(each, now) for each in failed) < _FAILING_FOR:
        return None
    return f"no volume can be made from it: {message}"


def _first(event: Object, now: datetime) -> datetime:
    return _time(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last(event: Object, now: datetime) -> datetime:
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp")
    return _time(last or event.get("eventTime") or event.get("firstTimestamp"), now)


def _time(text: object, now: datetime) -> datetime:
    return datetime.fromisoformat(text) if isinstance(text, str) else now
