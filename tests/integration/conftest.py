"""What integration tests may ask for."""

from tests.support.fixtures import streams, workers

__all__ = ["streams", "workers"]
