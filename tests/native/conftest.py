"""Fixtures of the tests of the native path. Without the extension none is collected: `make test-all` says so."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from dedupe_worker.cli import NATIVE
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.fixtures import streams

__all__ = ["streams", "workers"]

collect_ignore_glob = [] if find_spec("dedupe_native") else ["*.py"]


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultWorkers]:
    """Start workers on the native path that end with the test."""
    monkeypatch.setenv(NATIVE, "1")
    started = FaultWorkers(tmp_path)
    yield started
    started.end_all()
