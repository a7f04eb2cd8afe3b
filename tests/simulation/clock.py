"""Simulated time: waits cost nothing, and the wall clock can be stepped.

Invariant: two runs of a seed read the same times, so nothing here asks the machine's clock.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from threading import Event
from typing import Final

from dedupe_crds.clock import Clock

START: Final = 1_800_000_000.0
"""Unix seconds at which every simulation begins."""

Action = Callable[[], None]


class SimClock(Clock):
    """The clock of a simulated world: the machines of all its processes share it."""

    def __init__(self, start: float = START) -> None:
        self._elapsed = 0.0
        self._wall = self._start = start
        self._due: list[tuple[float, int, Action]] = []
        self._planned = 0
        self.waiter: Callable[[float], None] = self.elapse
        """How a process waits: the scheduler of processes lets others run meanwhile."""

    def time(self) -> float:
        """Return Unix seconds of the wall clock."""
        return self._wall + self._elapsed

    def monotonic(self) -> float:
        """Return the seconds since the simulation began."""
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Wait; nothing interrupts it."""
        self.waiter(max(0.0, seconds))

    def wait(self, event: Event, seconds: float) -> bool:
        """Wait until something that is due meanwhile sets the event, or the time is over."""
        if not event.is_set():
            self.waiter(max(0.0, seconds))
        return event.is_set()

    def advance(self, seconds: float) -> None:
        """Let a process wait, as for the answer to a request."""
        self.waiter(seconds)

    # -- for the world ---------------------------------------------------------------------------

    def elapse(self, seconds: float) -> None:
        """Let time pass, and run what is due meanwhile, each at its time."""
        self.elapse_to(self._elapsed + seconds)

    def elapse_to(self, end: float) -> None:
        """Let time pass up to a moment of the monotonic clock, exactly."""
        while self._due and self._due[0][0] <= end:
            when, _, action = heappop(self._due)
            self._elapsed = max(self._elapsed, when)
            action()
        self._elapsed = max(self._elapsed, end)

    @property
    def stepped_seconds(self) -> float:
        """Return by how much the wall clock was set forward so far; below 0: back."""
        return self._wall - self._start

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._wall += seconds

    def after(self, seconds: float, action: Action) -> None:
        """Run `action` once so many seconds have passed."""
        self._planned += 1
        heappush(self._due, (self._elapsed + seconds, self._planned, action))

    @property
    def next_due(self) -> float | None:
        """Return when the next action is due, on the monotonic clock."""
        return self._due[0][0] if self._due else None

    @property
    def last_due(self) -> float:
        """Return when the last planned action is due; now if there is none."""
        return max((when for when, _, _ in self._due), default=self._elapsed)
