"""Fixtures of the simulation's tests."""

from collections.abc import Iterator

import pytest
import structlog

from tests.simulation.outcome import silence_logs


@pytest.fixture
def quiet() -> Iterator[None]:
    """Let the worker log nothing in a test; later tests of this process log as before."""
    before = structlog.get_config()
    silence_logs(keep=False)
    yield
    structlog.configure(**before)
