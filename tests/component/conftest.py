"""What integration tests may ask for."""

from tests.support.fixtures import routing, streams, workers

__all__ = ["routing", "streams", "workers"]
