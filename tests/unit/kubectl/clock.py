"""Time that passes only while one sleeps."""


class FakeClock:
    """A `dedupe_kubectl.waiting.Clock` that does not wait."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds
