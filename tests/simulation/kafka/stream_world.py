"""One stream on the simulated Kafka, with the real worker and its volume."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event

import pytest

from dedupe_crds.status.worker import WorkerStatus
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import load_config
from dedupe_worker.status import WorkerState
from dedupe_worker.supervisor import Supervisor
from tests.simulation.kafka.calls import Call, Hook, Killed
from tests.simulation.kafka.cluster import SimKafka, no_faults, record
from tests.simulation.kafka.log import Record
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.support.traffic.streams import stream_manifest

Act = Callable[[WorkerState], None]


class StreamWorld:
    """A cluster with one stream, and its volume.

    The waits between two sessions are the same in each run, so that a run ends at the same step each time.
    """

    def __init__(self, directory: Path, *, topic_ids: bool) -> None:
        directory.mkdir(exist_ok=True)
        self.seconds = 60.0
        self.directory = directory
        self.clock = SimpleClock()
        self.cluster = SimKafka(self.clock, topic_ids=topic_ids)
        for topic in ("raw", "clean"):
            self.cluster.create_topic(topic)

    def write(self, *values: str, key: bool = True) -> None:
        """Write records, each with its value as its id, or without one."""
        self.cluster.write("raw", 0, [with_value(value, key=key) for value in values])

    def clean(self) -> list[str]:
        """Return the values in the output."""
        return [(each.value() or b"").decode() for each in self.cluster.visible("clean", 0)]

    def factory(
        self, restore_from: str | None = None, hook: Hook = no_faults, /, **spec: object
    ) -> ComponentFactory:
        """Return the factory of a worker's process; `hook` is called around each call to Kafka."""
        stream = stream_manifest(self.directory, "simulated:9092", "raw", "clean", **spec)
        config = load_config(
            manifest=stream.manifest,
            partition=0,
            state_dir=self.directory / "state",
            kafka_properties=None,
            restore_from=restore_from,
        )
        return ComponentFactory(config, self.clock, self.cluster.clients("worker", hook))

    def run(
        self,
        acts: dict[float, Act] | None = None,
        *,
        restore_from: str | None = None,
        **spec: object,
    ) -> WorkerStatus:
        """Run a worker for `seconds`, and act at some of them; return its last status."""
        return self.run_with(no_faults, acts, restore_from=restore_from, **spec)

    def run_with(
        self,
        hook: Hook,
        acts: dict[float, Act] | None = None,
        *,
        restore_from: str | None = None,
        **spec: object,
    ) -> WorkerStatus:
        """Run a worker as `run` does; `hook` is called around each call to Kafka."""
        factory = self.factory(restore_from, hook, **spec)
        stop, began = Event(), self.clock.monotonic()
        waiting = sorted((acts or {}).items())
        last: list[WorkerStatus] = []

        def act() -> None:
            seconds = self.clock.monotonic() - began
            while waiting and seconds >= waiting[0][0]:
                waiting.pop(0)[1](factory.worker_state)
            if seconds >= self.seconds and not last:
                last.append(factory.worker_state.status())
                stop.set()

        before, self.clock.at_each_wait = self.clock.at_each_wait, act
        Supervisor(factory, CommandQueue(), stop, random=Random(1)).run()
        self.clock.at_each_wait = before
        return last[0]

    def run_killed(self, moment: int, **spec: object) -> None:
        """Run a worker, and kill it at that moment before or after a call to Kafka, from 1 on."""
        passed = 0

        def kill(_: Call) -> None:
            nonlocal passed
            passed += 1
            if passed >= moment:
                raise Killed

        factory = self.factory(None, kill, **spec)
        with pytest.raises(Killed):
            Supervisor(factory, CommandQueue(), Event(), random=Random(1)).run()


def with_value(value: str, *, key: bool = True) -> Record:
    """Return a record whose key, if it has one, is its value."""
    return record(value.encode() if key else None, value.encode())


def values(name: str, count: int) -> list[str]:
    """Return different values that begin with the name."""
    return [f"{name}{number}" for number in range(count)]
