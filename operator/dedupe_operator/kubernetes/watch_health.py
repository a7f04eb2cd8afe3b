"""Space the attempts to watch, and show a watch that fails.

`WatchCache` and `StreamWatches` have one for each of their watches. A failure is logged once, and is in a metric. A
namespace in which the operator has lost its rights is tried again ever more rarely, until it has them.
"""

import logging
import random
from typing import Final

from dedupe_operator import metrics

_FIRST_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 60.0

log = logging.getLogger(__name__)


class WatchHealth:
    """The recent failures of one watch."""

    def __init__(self, plural: str, namespace: str | None) -> None:
        self._what = f"{plural} in {namespace}" if namespace else plural
        self._failing = metrics.WATCHES_FAILING.labels(namespace or "", plural)
        self._failing.set(0)
        self._failures = 0
        self._said = ""

    def works(self) -> float:
        """Note that it works; return the seconds until the next attempt."""
        if self._said:
            log.info("watching %s again", self._what)
        self._failures, self._said = 0, ""
        self._failing.set(0)
        return _spread(_FIRST_SECONDS)

    def fails(self, reason: str, message: str) -> float:
        """Note that an attempt failed; return the seconds until the next one."""
        self._failing.set(1)
        if self._said != reason:
            log.warning("watching %s: %s: %s", self._what, reason, message)
        self._said = reason
        self._failures += 1
        return _spread(min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** (self._failures - 1)))


def _spread(seconds: float) -> float:
    """Return at least half of the time: all kinds of objects fail at once."""
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311 # spreads the load
