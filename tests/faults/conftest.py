"""Fixtures of the fault tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.seed import SEED
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.fixtures import routed_streams, routers, routing, streams

__all__ = ["routed_streams", "routers", "routing", "streams", "workers"]


@pytest.fixture(autouse=True)
def show_seed() -> None:
    print(f"seed {SEED}; use another with FAULT_SEED=… pytest …")


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[FaultWorkers]:
    """Start workers that end with the test.

    Example: `workers.start(stream, crash=Crash(Step.BEFORE_COMMIT))`.
    """
    started = FaultWorkers(tmp_path)
    yield started
    started.end_all()
