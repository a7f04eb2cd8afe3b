"""A clock for tests."""

from threading import Event

from dedupe_crds.clock import Clock


class StillClock(Clock):
    """A clock that only its own waiting moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def time(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def wait(self, event: Event, seconds: float) -> bool:
        self.sleep(seconds)
        return event.is_set()
