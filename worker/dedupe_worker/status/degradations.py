"""Degraded reasons: the worker runs on, but not everything is as guaranteed.

To add a reason: a member of `Degraded`, a row in docs/operations.md, and `hold` or `record` where it is seen.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.status.worker import DegradedReason

_EVENT_SECONDS: Final = 24 * 3600.0


class Degraded(StrEnum):
    """Reasons that leave a worker ready, although not everything is as promised.

    docs/operations.md explains each; a test checks that.
    """

    WINDOW_SHORTENED = "WindowShortened"
    INPUT_EXPIRED = "InputExpired"
    INPUT_TRUNCATED = "InputTruncated"
    OUTPUT_TRUNCATED = "OutputTruncated"
    INPUT_TOPIC_REPLACED = "InputTopicReplaced"
    GENERATIONS_DROPPED = "GenerationsDropped"
    MISSING_IDS = "MissingIds"
    OPEN_TRANSACTION = "OpenTransaction"
    INPUT_PARTITIONS_ADDED = "InputPartitionsAdded"
    FEW_ORIGINS_LEFT = "FewOriginsLeft"
    REPARTITION_TOPIC_NOT_TRIMMED = "RepartitionTopicNotTrimmed"
    VOLUME_WITHOUT_LOCKS = "VolumeWithoutLocks"


@dataclass(slots=True)
class _Report:
    message: str
    count: int
    first_seen: datetime
    last_seen: datetime
    current_until: float


class Degradations:
    """The degraded reasons of a worker, which leave it ready and restart nothing.

    A state is listed from `hold` to `clear`. An event is listed for 24 hours after its last `record`.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._reports: dict[Degraded, _Report] = {}

    def hold(self, reason: Degraded, message: str) -> None:
        """Report a state that lasts until `clear`; to be called as often as it is seen."""
        report = self._reports.get(reason)
        began = report is None or not self._is_current(report)
        self._report(reason, message, count=int(began), current_until=math.inf)

    def record(self, reason: Degraded, message: str, count: int = 1) -> None:
        """Report an event, or `count` more records that it is about."""
        current_until = self._clock.monotonic() + _EVENT_SECONDS
        self._report(reason, message, count=count, current_until=current_until)

    def clear(self, reason: Degraded) -> None:
        """End a state; its count stays."""
        report = self._reports.get(reason)
        if report is not None:
            report.current_until = -math.inf

    def current(self) -> list[DegradedReason]:
        """Return what is listed now, sorted by reason."""
        return [
            DegradedReason(
                reason=reason,
                message=report.message,
                count=report.count,
                first_seen=report.first_seen,
                last_seen=report.last_seen,
            )
            for reason, report in sorted(self._reports.copy().items())
            if self._is_current(report)
        ]

    def _is_current(self, report: _Report) -> bool:
        return self._clock.monotonic() < report.current_until

    def _report(self, reason: Degraded, message: str, *, count: int, current_until: float) -> None:
        now = self._clock.now()
        report = self._reports.get(reason)
        if report is None:
            self._reports[reason] = _Report(message, count, now, now, current_until)
            return
        report.message, report.last_seen = message, now
        report.count += count
        report.current_until = current_until
