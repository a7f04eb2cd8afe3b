"""Time that passes only while one sleeps."""


class FakeClock:
    """In the place of the `time` module where something waits."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds
