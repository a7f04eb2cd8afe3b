"""The clock by which tests wait: it slows down while the machine starves this process of CPU time.

So a deadline measures the system, not what else runs on the machine. All waits of tests go through this module.
"""

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from dedupe_crds.deadline import Deadline

LONGEST_SECONDS = 120.0
"""What a test waits for at most, on a machine that is free. Only what is slow by its nature may take longer."""

STRETCH = 10.0
"""How much slower than the wall the clock gets at most."""

HANG_SECONDS = LONGEST_SECONDS * STRETCH
"""A timeout for a call that takes seconds of the wall only: what takes longer than any deadline hangs."""

_POLL_SECONDS = 0.05

# A thread that is busy for five milliseconds is preempted where others want the core: the scheduler decides every four.
# A shorter time would often pass undisturbed, as the scheduler prefers threads that have slept.
_SHARE, _SHORTEST_SPIN, _LONGEST_SPIN = 0.02, 0.005, 0.05
# Single measurements differ by chance, so those of some seconds count together: each half as much as one two seconds
# later.
_HALF_LIFE_SECONDS = 2.0

Held = TypeVar("Held")


def slowness(cpu_seconds: float) -> float:
    """Keep this thread busy for some CPU time; return how many seconds one of them took, at least 1."""
    began, spent = time.monotonic(), time.thread_time()
    end = spent + cpu_seconds
    while (now := time.thread_time()) < end:
        pass
    return max(1.0, (time.monotonic() - began) / (now - spent))


class PatienceClock:
    """Return seconds that pass slower than the wall's by what a busy thread gets too little, tenfold at most.

    A reading measures starvation itself if the last measurement is a quarter of a second old, with two percent of that
    time. So it costs nothing while nobody waits. A gap between readings counts as starved as its end. It never goes
    backward, and several threads may read it.

    >>> now = [100.0]
    >>> clock = PatienceClock(wall=lambda: now[0], slowness=lambda spin: 4.0)
    >>> began, now[0] = clock(), 108.0
    >>> clock() - began
    2.0
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.monotonic,
        slowness: Callable[[float], float] = slowness,
    ) -> None:
        self._wall = wall
        self._slowness = slowness
        self._measured_at = self._passed = wall()
        self._busy, self._cpu = 0.0, 0.0
        self._renew_lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def __call__(self) -> float:
        """Return the seconds that have passed since some moment."""
        with self._lock:
            gap = self._wall() - self._measured_at
            if gap >= _SHORTEST_SPIN / _SHARE:
                rate = self._measured_rate(gap)
                gap = self._wall() - self._measured_at
                self._measured_at += gap
                self._passed += gap * rate
                gap = 0.0
            # At the slowest pace until the next measurement, or that could take some of it back.
            return self._passed + gap / STRETCH

    def _measured_rate(self, gap: float) -> float:
        spin = min(_LONGEST_SPIN, gap * _SHARE)
        earlier = 0.5 ** (gap / _HALF_LIFE_SECONDS)
        self._busy = self._busy * earlier + spin * self._slowness(spin)
        self._cpu = self._cpu * earlier + spin
        return max(1 / STRETCH, self._cpu / self._busy)

    def _renew_lock(self) -> None:
        """Have an own lock in a child process: another thread of the parent may hold the parent's."""
        self._lock = Lock()


patience_clock = PatienceClock()


def patience(seconds: float) -> Deadline:
    """Return a deadline by the patience clock."""
    return Deadline(seconds, clock=patience_clock)


def wait_for(
    condition: Callable[[], Held | None],
    what: str,
    *,
    deadline_seconds: float = LONGEST_SECONDS,
    poll_seconds: float = _POLL_SECONDS,
    explain: Callable[[], str] = str,
) -> Held:
    """Poll until the condition holds, and return its result.

    Raises AssertionError, with the result of `explain`, if it does not hold in time by the patience clock.
    """
    held = patience(deadline_seconds).wait_for(condition, poll_seconds=poll_seconds)
    if not held:
        raise AssertionError(f"not within {deadline_seconds:.0f} s: {what}\n{explain()}")
    return held


def pace(seconds: float) -> None:
    """Do nothing for seconds of the wall, where a rate or a pause is what a test is about.

    It is not for waiting until something has happened.
    """
    time.sleep(seconds)
