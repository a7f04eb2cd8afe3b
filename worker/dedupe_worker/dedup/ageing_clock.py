"""The clock by which ids age.

Ids are not forgotten for age while input waits that may repeat them. So this clock is the smaller of the wall clock and
the persisted last time plus the time that has passed while the worker was caught up. `Window` writes it with the ids,
and the store keeps it; `Housekeeping` advances it.

Invariants:
  - It never goes backward. If the wall clock is behind it, it stands still until the wall clock has reached it.
  - A step of the wall clock, a stop of the worker, a frozen process, and the timestamps of records never move it.
"""

import math
from typing import Final

from dedupe_crds.clock import Clock

_CAUGHT_UP_SECONDS: Final = 60.0
"""A worker is caught up if it has read all input that was there so long ago."""

_LONGEST_STEP_SECONDS: Final = 10.0
"""The most that counts between two calls of `advance`, which are a second apart.

A process that was frozen, or a call that hung, does not know what has arrived meanwhile.
"""


class AgeingClock:
    """The clock of one session. `persisted_ms` is the store's last time; 0 if unknown."""

    def __init__(self, clock: Clock, persisted_ms: int) -> None:
        self._clock = clock
        self._ms = float(persisted_ms or clock.time_ms())
        self._advanced = clock.monotonic()
        self._waiting: tuple[float, int] | None = None
        self._read_up_to = -math.inf

    @property
    def now_ms(self) -> int:
        """Return its time, Unix milliseconds."""
        return int(self._ms)

    @property
    def latest_ms(self) -> int:
        """Return the latest time that the next call of `advance` may give to this moment.

        Ids that are added now get it: with `now_ms` they would be too old by what that call adds.
        """
        return int(self._after(self._elapsed(self._clock.monotonic())))

    def advance(self, position: int, end: int | None) -> None:
        """Count the time since the last call if the worker is caught up.

        `position` is the next input offset; `end` is the end of the input, None if unknown.
        """
        now = self._clock.monotonic()
        elapsed = self._elapsed(now)
        self._advanced = now
        if self._is_caught_up(now, position, end):
            self._ms = self._after(elapsed)

    def _elapsed(self, now: float) -> float:
        return min(now - self._advanced, _LONGEST_STEP_SECONDS)

    def _after(self, elapsed: float) -> float:
        return max(self._ms, min(self._clock.time_ms(), self._ms + elapsed * 1000))

    def _is_caught_up(self, now: float, position: int, end: int | None) -> bool:
        """Return whether all input of a minute ago has been read.

        A worker that is fast enough may still never be at the end of a busy input.
        """
        if end is None:
            return False
        if self._waiting and position >= self._waiting[1]:
            self._read_up_to, self._waiting = self._waiting[0], None
        if position >= end:
            self._read_up_to = now
        elif self._waiting is None:
            self._waiting = (now, end)
        return now - self._read_up_to <= _CAUGHT_UP_SECONDS
