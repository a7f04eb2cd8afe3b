"""Drain condition: has a fleet processed its input up to given end offsets?

The fleet calls it with worker statuses and times. Pure: no clock, no I/O.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from dedupe_crds.status.worker import Phase, WorkerStatus

_HELD: Final = "OpenTransaction"


class Drain(Protocol):
    """The way of a fleet to the end of what was in its input when the drain began."""

    def observe(self, statuses: Sequence[WorkerStatus | None], now: float) -> None:
        """Record the workers' statuses, by partition; None is no answer."""

    @property
    def done(self) -> bool:
        """Return whether the end is reached."""

    def stalled(self, now: float) -> list[str]:
        """Return a sentence for each partition that makes no progress."""

    def missing(self) -> list[str]:
        """Return a sentence for each partition that is not at its end."""


class WorkerDrain:
    """Tracks workers up to the end offsets in `targets` (by partition).

    A partition has stalled if it made no progress for `stall_seconds`. Progress is a higher offset, or fewer records to
    reconcile, than ever before: so a crash-looping worker counts as stalled.
    """

    def __init__(self, targets: Mapping[int, int], stall_seconds: float, now: float) -> None:
        self._stall_seconds = stall_seconds
        self._partitions: list[_Partition] = []
        self.extend(targets, now)

    def extend(self, targets: Mapping[int, int], now: float) -> None:
        """Track more partitions, whose ends were not known."""
        added = [_Partition(number, target, now) for number, target in targets.items()]
        self._partitions = sorted([*self._partitions, *added], key=lambda each: each.number)

    def observe(self, statuses: Sequence[WorkerStatus | None], now: float) -> None:
        """Record the workers' statuses, by partition; None is no answer."""
        for partition in self._partitions:
            # While a stream grows, a topic may have a partition before it has a worker.
            known = partition.number < len(statuses)
            partition.observe(statuses[partition.number] if known else None, now)

    @property
    def moved_at(self) -> float:
        """Return the time of the last progress of any partition."""
        return max((partition.moved_at for partition in self._partitions), default=-math.inf)

    @property
    def done(self) -> bool:
        """Return whether every partition is at its end."""
        return all(partition.done for partition in self._partitions)

    def stalled(self, now: float) -> list[str]:
        """Return a sentence for each partition that makes no progress."""
        return [
            partition.describe()
            for partition in self._partitions
            if not partition.done and now - partition.moved_at >= self._stall_seconds
        ]

    def missing(self) -> list[str]:
        """Return a sentence for each partition that is not at its end."""
        return [partition.describe() for partition in self._partitions if not partition.done]


class _Partition:
    def __init__(self, number: int, target: int, now: float) -> None:
        self.number = number
        self.moved_at = now
        self.done = False
        self._target = target
        self._furthest = -1
        self._least_to_reconcile = math.inf
        self._message: str | None = None

    def observe(self, status: WorkerStatus | None, now: float) -> None:
        # A worker that is gone may have an open transaction: it must be ready again.
        self.done = status is not None and status.ready and self._at_end(status)
        if status is None:
            return
        held = [each.message for each in status.degraded if each.reason == _HELD]
        self._message = status.message or next(iter(held), self._message)
        if self.done or status.input.next_offset > self._furthest:
            self._furthest = max(self._furthest, status.input.next_offset)
            self.moved_at = now
        to_reconcile = _to_reconcile(status)
        if to_reconcile < self._least_to_reconcile:
            self._least_to_reconcile = to_reconcile
            self.moved_at = now

    def describe(self) -> str:
        reached = max(self._furthest, 0)
        message = f": {self._message}" if self._message else ""
        return f"partition {self.number} is at offset {reached} of {self._target}{message}"

    def _at_end(self, status: WorkerStatus) -> bool:
        return status.input.next_offset >= self._target


def _to_reconcile(status: WorkerStatus) -> float:
    """Return how many records a worker in its reconcile has yet to read."""
    if status.phase is Phase.RECONCILING and status.reconcile is not None:
        return status.reconcile.remaining
    return math.inf
