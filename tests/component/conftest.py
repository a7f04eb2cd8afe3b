"""Fixtures of the component tests."""

from tests.support.fixtures import routing, streams, workers

__all__ = ["routing", "streams", "workers"]
