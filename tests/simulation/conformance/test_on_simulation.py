"""The scripts on the simulated Kafka. tests/component/conformance runs them on a broker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.simulation.conformance.scripts import LOSSES, REFUSALS, SCRIPTS, Script
from tests.simulation.conformance.world import World
from tests.simulation.kafka.cluster import SimKafka, no_faults
from tests.simulation.kafka.rights import Right
from tests.simulation.kafka.simple_clock import SimpleClock


class SimulatedWorld(World):
    """A simulated cluster of its own."""

    def __init__(self) -> None:
        self._clock = SimpleClock()
        self.cluster = SimKafka(self._clock)
        super().__init__(self.cluster.clients("script", no_faults), "script", {})

    def create(self, topic: str, partitions: int = 1, **config: object) -> str:
        name = topic if topic.startswith(self.name) else f"{self.name}-{topic}"
        settings = {key: str(value) for key, value in config.items()}
        return self.cluster.create_topic(name, partitions, settings).name

    def delete(self, topic: str) -> None:
        self.cluster.delete_topic(topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self.cluster.add_partitions(topic, total)

    def delete_records(self, topic: str, before: int) -> None:
        self.cluster.delete_records(topic, 0, before)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = self._clock.deadline(60)
        assert deadline.wait_for(condition, poll_seconds=0.1)

    @contextmanager
    def losing(self, topic: str) -> Iterator[Callable[[], None]]:
        log = self.cluster.log(topic, 0)
        end = log.end
        log.change_leader()
        yield lambda: log.truncate(end)

    @contextmanager
    def flipped(self, topic: str, value: bytes) -> Iterator[None]:
        batches = self.cluster.log(topic, 0).batches
        (batch,) = (each for each in batches if value in {one.value for one in each.records})
        batch.damaged = True
        yield
        batch.damaged = False

    @contextmanager
    def refusing(self, right: Right, name: str) -> Iterator[None]:
        with self.cluster.rights.without(right, name):
            yield

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.cluster.coordinator_away(float("inf"))
        yield
        self.cluster.coordinator_away(0)


@pytest.mark.parametrize(
    "script", [*SCRIPTS, *LOSSES, *REFUSALS], ids=lambda script: script.__name__
)
def test_the_simulation_answers_as_a_broker(script: Script) -> None:
    answers, expected = script(SimulatedWorld())
    assert answers == expected
