"""A bound on waiting, for every loop that polls or retries until a time is over.

It stands in the lowest package because all parts wait for something. Invariant: a deadline reads the time and waits
only through its two arguments, so a test or a simulation can supply both.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Deadline:
    """The moment `seconds` after its construction.

    `clock` returns seconds and never goes backward. `wait` blocks for the seconds it is given; if it returns something
    true, the wait was interrupted. So a stop event ends the loop at once: `Deadline(60, wait=stop.wait)`.

    Poll for a value, with a time that is faked here:

    >>> now = [100.0]
    >>> def clock() -> float: return now[0]
    >>> def wait(seconds: float) -> None: now[0] += seconds
    >>> Deadline(60, clock=clock, wait=wait).wait_for(lambda: now[0] > 130, poll_seconds=20)
    True
    >>> now
    [140.0]

    Retry what fails:

    >>> deadline, attempts = Deadline(60, clock=clock, wait=wait), 1
    >>> while deadline.pause(25):
    ...     attempts += 1
    >>> attempts, deadline.expired
    (4, True)
    """

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._wait = wait
        self._end = clock() + seconds

    @property
    def expired(self) -> bool:
        """Return whether the time is over."""
        return self._clock() >= self._end

    def remaining(self) -> float:
        """Return the seconds left, at least 0: the timeout for a call that blocks."""
        return max(0.0, self._end - self._clock())

    def pause(self, seconds: float) -> bool:
        """Wait before the next attempt, never past the deadline.

        Return whether to make that attempt.

        False means: the time was over before the pause, or the pause was interrupted. With 0 seconds it only checks.
        """
        if self.expired:
            return False
        return not self._wait(min(seconds, self.remaining()))

    def wait_for(self, condition: Callable[[], T], *, poll_seconds: float) -> T:
        """Call `condition` until it returns something true; return its last result.

        A false result means that the time is over or that a pause was interrupted. The last call begins after the
        deadline, so a process that stood still for a while is no failure. Errors of the condition are not caught.
        """
        while True:
            late = self.expired
            result = condition()
            if result or late or self._wait(min(poll_seconds, self.remaining())):
                return result
