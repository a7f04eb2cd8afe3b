"""Time and waiting for everything below a process's entry points.

It stands in the lowest package because several processes need it. Each takes a clock where it is put together, by
default the machine's, and passes it on. Invariant: a module of the worker reads the time and sleeps only through a
`Clock`, so that a simulation can supply both; tests/unit/worker/test_clock.py checks that. Waits inside librdkafka and
RocksDB are theirs.
"""

import time as machine
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import Final

from dedupe_crds.deadline import Deadline


class Clock(ABC):
    """The time, and waiting until it has passed."""

    @abstractmethod
    def time(self) -> float:
        """Return Unix seconds, which may be set back."""

    @abstractmethod
    def monotonic(self) -> float:
        """Return seconds that never go backward, from an unknown start."""

    def since_boot(self) -> float:
        """Return seconds that never go backward, and count while the machine is suspended."""
        return self.monotonic()

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Wait."""

    @abstractmethod
    def wait(self, event: Event, seconds: float) -> bool:
        """Wait until the event is set, for `seconds` at most; return whether it is set."""

    def time_ms(self) -> int:
        """Return Unix milliseconds."""
        return int(self.time() * 1000)

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.fromtimestamp(self.time(), UTC)

    def deadline(self, seconds: float, stop: Event | None = None) -> Deadline:
        """Return a deadline on this clock, whose pauses end when `stop` is set."""
        wait = self.sleep if stop is None else partial(self.wait, stop)
        return Deadline(seconds, clock=self.monotonic, wait=wait)


class SystemClock(Clock):
    """The machine's clock."""

    # Not wrapped: the loop reads them several times for each batch.
    time = staticmethod(machine.time)
    monotonic = staticmethod(machine.monotonic)

    def since_boot(self) -> float:
        """Return the boot clock, which not every system has."""
        clock = getattr(machine, "CLOCK_BOOTTIME", machine.CLOCK_MONOTONIC)
        return machine.clock_gettime(clock)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        machine.sleep(seconds)

    def wait(self, event: Event, seconds: float) -> bool:
        """Wait on the event itself."""
        return event.wait(seconds)


class Stopwatch:
    """The seconds since it was made, also those in which the machine was suspended.

    A paused virtual machine's boot clock may stand still, and its wall clock is set afterwards: the larger of both
    counts. So a wall clock that is set forward makes it fast; it is for deadlines that are harmless when they come
    early.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_boot, self._time = clock.since_boot(), clock.time()

    @property
    def seconds(self) -> float:
        """Return the seconds that have passed."""
        clock = self._clock
        return max(clock.since_boot() - self._since_boot, clock.time() - self._time)


SYSTEM_CLOCK: Final = SystemClock()
"""The clock of an entry point."""
