"""Tests of histories say nothing but their verdict."""

import logging
from collections.abc import Iterator

import pytest

from tests.operator_simulation.world import silence_logs


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    silence_logs()
    yield
    logging.disable(logging.NOTSET)  # other tests of the process read the log
