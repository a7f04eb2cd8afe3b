"""Waiting for what another thread is to do."""

from collections.abc import Callable

from tests.support.patience import wait_for


def until(happened: Callable[[], object]) -> None:
    """Return as soon as something has happened. Raises AssertionError if it does not in time."""
    wait_for(happened, "it happens", poll_seconds=0.01)
