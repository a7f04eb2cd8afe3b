"""Time and waiting for everything below the process's entry points.

`ComponentFactory` takes a clock, by default the machine's, and passes it on. Invariant: a module of the worker reads
the time and sleeps only through a `Clock`, so that a simulation can supply both; tests/unit/worker/test_clock.py
checks that. Waits inside librdkafka and RocksDB are theirs.
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

    def sleep(self, seconds: float) -> None:
        """Wait."""
        machine.sleep(seconds)

    def wait(self, event: Event, seconds: float) -> bool:
        """Wait on the event itself."""
        return event.wait(seconds)


SYSTEM_CLOCK: Final = SystemClock()
"""The clock of an entry point."""
