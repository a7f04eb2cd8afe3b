"""What tests of whole looks start from."""

from collections.abc import Iterator

import pytest

from tests.unit.operator.fake_kafka import FakeKafka
from tests.unit.operator.objects import STREAM
from tests.unit.operator.scene import Scene


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A stream of two partitions that nobody has looked at yet."""
    kafka = FakeKafka()
    monkeypatch.setattr("dedupe_operator.kafka_asks.Cluster", kafka)
    made = Scene(kafka)
    monkeypatch.setattr("dedupe_operator.growth_watch.GrowthController", made.epochs)
    made.cluster.add_stream()
    yield made
    # The metric of a stream goes with it.
    made.cluster.objects.pop(("DedupeStream", STREAM), None)
    assert made.look() is None
