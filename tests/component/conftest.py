"""Fixtures of the component tests."""

from tests.support.fixtures import routed_streams, routers, routing, streams, workers

__all__ = ["routed_streams", "routers", "routing", "streams", "workers"]
