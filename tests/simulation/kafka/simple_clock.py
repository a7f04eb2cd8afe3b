"""A clock for the tests of the simulated Kafka: only waiting moves it."""

from collections.abc import Callable
from threading import Event

from dedupe_crds.clock import Clock


class SimpleClock(Clock):
    """A clock of one process. `at_each_wait` is called after each wait, such as to end a session."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0
        self.at_each_wait: Callable[[], None] = lambda: None

    def time(self) -> float:
        """Return Unix seconds."""
        return self.seconds

    def monotonic(self) -> float:
        """Return the same seconds, which are never set back."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
        self.at_each_wait()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.advance(seconds)

    def wait(self, event: Event, seconds: float) -> bool:
        """Let time pass, then return whether the event is set."""
        if not event.is_set():
            self.advance(seconds)
        return event.is_set()
