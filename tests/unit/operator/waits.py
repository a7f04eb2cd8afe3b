"""Waiting for what another thread is to do."""

import time
from collections.abc import Callable


def until(happened: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Return as soon as something has happened. Raises AssertionError if it does not in time."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"did not happen in {seconds} s"
        time.sleep(0.01)
