"""Drain of a stream that grows: it is not at its end before the growth is done.

The fleet calls it. Pure: no clock, no I/O.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.router import RouterPhase
from dedupe_crds.status.worker import Phase, WorkerStatus
from dedupe_local.run.drain import Drain
from dedupe_local.run.router_process import RouterView
from dedupe_local.run.worker_process import WorkerView

_ORDER = list(GrowthStep)


class Growing(Protocol):
    """The part of `Growth` that this needs."""

    @property
    def under_way(self) -> bool: ...  # noqa: D102
    @property
    def status(self) -> GrowthStatus | None: ...  # noqa: D102
    def notes(self) -> list[str]: ...  # noqa: D102


class GrowthDrain:
    """Tracks a growth, and the drain of the stream after it.

    A growth has stalled if nothing of it got further than ever before for `stall_seconds`: its step, what its workers
    read of outputs, and, while they are waited for, of the repartition topic. So a crash-looping worker counts as
    stalled. What waited for the growth has as long again from its end on.
    """

    def __init__(
        self,
        drain: Drain,
        growth: Growing,
        stall_seconds: float,
        now: float,
        *,
        workers: Callable[[], Sequence[WorkerView]],
        routers: Callable[[], Sequence[RouterView]],
    ) -> None:
        self._drain = drain
        self._growth = growth
        self._stall_seconds = stall_seconds
        self._workers = workers
        self._routers = routers
        self._moved_at = now
        self._grows = False
        self._furthest: dict[object, object] = {}

    def observe(self, statuses: Sequence[WorkerStatus | None], now: float) -> None:
        """Record how far the growth, routers and workers are."""
        self._drain.observe(statuses, now)
        grew, self._grows = self._grows, self._growth.under_way
        if (grew and not self._grows) or (self._grows and self._advances(statuses)):
            self._moved_at = now

    @property
    def done(self) -> bool:
        """Return whether the growth is done, and the end is reached."""
        return self._drain.done and not self._grows

    def stalled(self, now: float) -> list[str]:
        """Return what the growth waits for, or a sentence for each stalled partition."""
        if now - self._moved_at < self._stall_seconds:
            return []
        return self._waits() if self._grows else self._drain.stalled(now)

    def missing(self) -> list[str]:
        """Return what the growth waits for, and each partition not at its end."""
        return [*(self._waits() if self._grows else ()), *self._drain.missing()]

    # -- progress --------------------------------------------------------------------------------

    def _advances(self, statuses: Sequence[WorkerStatus | None]) -> bool:
        status = self._growth.status
        moved = [status and self._is_further((), (status.epoch, _index(status), status.done))]
        read = self._read_for_it(status, len(statuses))
        for each in filter(None, statuses):
            number, reading = each.partition, each.reconcile
            if reading is not None and each.phase is Phase.RECONCILING:
                moved.append(self._is_further((number, reading.reason, "read"), reading.records))
                moved.append(self._is_further((number, reading.reason, "left"), -reading.remaining))
            if number in read:
                moved.append(self._is_further(number, each.input.next_offset))
        return any(moved)

    def _is_further(self, what: object, reached: object) -> bool:
        if what in self._furthest and not self._furthest[what] < reached:  # type: ignore[operator] # of one kind
            return False
        self._furthest[what] = reached
        return True

    def _read_for_it(self, status: GrowthStatus | None, workers: int) -> Collection[int]:
        """Return the partitions of the repartition topic whose workers are waited for."""
        if status is None:
            return ()
        if status.step is GrowthStep.WAITING_FOR_WORKERS:
            return set(map(int, status.waiting_for))
        paused = any(v.status and v.status.phase is RouterPhase.PAUSED for v in self._routers())
        waits = paused and status.step is GrowthStep.WAITING_FOR_ROUTERS
        return range(workers if waits else 0)

    # -- what it waits for -----------------------------------------------------------------------

    def _waits(self) -> list[str]:
        """Return the step, and what those it waits for report."""
        status = self._growth.status
        said = [note.rstrip(".") for note in self._growth.notes()]
        if status is None or status.step is GrowthStep.DONE:
            return said
        if status.step is GrowthStep.WAITING_FOR_ROUTERS:
            named = [(f"router {view.router}", _problem(view)) for view in self._routers()]
        else:
            waiting = set(map(int, status.waiting_for))
            views = [view for view in self._workers() if view.partition in waiting]
            named = [(f"partition {view.partition}", _problem(view)) for view in views]
        return [*said, *(f"{name}: {problem}" for name, problem in named if problem)]


def _index(status: GrowthStatus) -> int:
    return _ORDER.index(status.step)


def _problem(view: WorkerView | RouterView) -> str:
    """Return why a process does not run as it should, as far as it is known."""
    status = view.status
    if view.last_exit or status is None:
        return view.last_exit or "it does not answer"
    return f"{status.reason}: {status.message}" if status.reason else ""
