"""Actions on routers, on the controller of a growth, and on the inputs.

The number of such a step is that of the router: r0, r1 and so on. The controller is g0.
"""

from dataclasses import dataclass
from typing import Final

from tests.simulation.kafka.failures import failure
from tests.simulation.kafka.log import Record
from tests.simulation.routed_world import RoutedWorld
from tests.simulation.schedule.input import Item, id_bytes, shown
from tests.simulation.schedule.settings import Settings, input_topic
from tests.simulation.world import World

_KEYS: Final = 5
"""The number of keys, where records go by their key."""

_NAMES: Final = {"r": "router", "g": "controller"}


@dataclass(frozen=True, slots=True)
class SendTo:
    """Send records to a partition of an input. All inputs share the ids."""

    topic: int
    partition: int
    items: tuple[Item, ...]

    process = "r"
    fault = None

    def __str__(self) -> str:
        return f"to {input_topic(self.topic)}/{self.partition}: {shown(self.items)}"

    def perform(self, world: World, partition: int) -> None:  # noqa: ARG002 (it is about no router)
        """Append them, with timestamps of now."""
        now_ms = world.clock.time_ms()
        records = [routed_record(each, now_ms, world.settings) for each in self.items]
        world.send(input_topic(self.topic), self.partition, records)


@dataclass(frozen=True, slots=True)
class KillAt:
    """End a router or the controller at once, and start it again."""

    process: str
    down_seconds: float = 1.0

    @property
    def fault(self) -> str:
        """Name it."""
        return f"{_NAMES[self.process]} kill"

    def perform(self, world: World, partition: int) -> None:
        """Kill it."""
        _routed(world).kill_at(f"{self.process}{partition}", self.down_seconds)


@dataclass(frozen=True, slots=True)
class StopAt:
    """Stop it with SIGTERM, and start it again: of a router, two rebalances."""

    process: str
    down_seconds: float = 1.0

    @property
    def fault(self) -> str:
        """Name it."""
        return f"{_NAMES[self.process]} stop"

    def perform(self, world: World, partition: int) -> None:
        """Stop it."""
        _routed(world).stop_at(f"{self.process}{partition}", self.down_seconds)


@dataclass(frozen=True, slots=True)
class FreezeAt:
    """Let it stand still: beyond 10 s the group gives a router's partitions to others."""

    process: str
    seconds: float

    @property
    def fault(self) -> str:
        """Name it."""
        return f"{_NAMES[self.process]} freeze"

    def perform(self, world: World, partition: int) -> None:
        """Freeze it."""
        _routed(world).freeze_at(f"{self.process}{partition}", self.seconds)


@dataclass(frozen=True, slots=True)
class SecondAt:
    """Start another process with its number; the first one runs on for a while."""

    process: str
    seconds: float

    @property
    def fault(self) -> str:
        """Name it."""
        return f"second {_NAMES[self.process]}"

    def perform(self, world: World, partition: int) -> None:
        """Start it."""
        _routed(world).start_second_at(f"{self.process}{partition}", self.seconds)


@dataclass(frozen=True, slots=True)
class FailCallAt:
    """Let a call of it fail; the moment of the step decides whether it has taken effect."""

    process: str
    code: int
    ambiguous: bool

    @property
    def fault(self) -> str:
        """Name it."""
        return f"{_NAMES[self.process]} {'ambiguous' if self.ambiguous else 'failed'} call"

    def perform(self, world: World, partition: int) -> None:
        """Raise the error, if it is the caller."""
        if _routed(world).is_calling(f"{self.process}{partition}"):
            raise failure(self.code, retriable=True)


@dataclass(frozen=True, slots=True)
class AddInputPartition:
    """Add a partition to an input."""

    topic: int
    process = "r"
    fault = "input partition added"

    def perform(self, world: World, partition: int) -> None:  # noqa: ARG002 (it is about no router)
        """Add it."""
        name = input_topic(self.topic)
        world.kafka.add_partitions(name, len(world.kafka.topics.get(name).logs) + 1)


@dataclass(frozen=True, slots=True)
class LoseTail:
    """Lose the newest `share` of an input partition's records, as brokers do that lose their power."""

    topic: int
    partition: int
    share: float
    process = "r"
    fault = "input truncated"

    def perform(self, world: World, partition: int) -> None:  # noqa: ARG002 (it is about no router)
        """Lose them."""
        _routed(world).lose_tail(input_topic(self.topic), self.partition, self.share)


@dataclass(frozen=True, slots=True)
class ChangeInputs:
    """Name these inputs in the manifest, and no others; the processes get it one after the other."""

    topics: tuple[int, ...]
    pause: float = 0.5
    process = "g"

    @property
    def fault(self) -> str:
        """Name it."""
        return "inputs changed"

    def perform(self, world: World, partition: int) -> None:  # noqa: ARG002 (there is one manifest)
        """Change the manifest."""
        _routed(world).change_inputs([input_topic(each) for each in self.topics], self.pause)


@dataclass(frozen=True, slots=True)
class Grow:
    """Ask for more partitions of the stream."""

    partitions: int
    process = "g"
    fault = "growth"

    def perform(self, world: World, partition: int) -> None:  # noqa: ARG002 (there is one manifest)
        """Change the manifest."""
        routed = _routed(world)
        routed.wanted = max(routed.wanted, self.partitions)


def _routed(world: World) -> RoutedWorld:
    assert isinstance(world, RoutedWorld), "a step about routers is of a stream with routers"
    return world


def routed_record(item: Item, now_ms: int, settings: Settings) -> Record:
    """Return the record of an item. Equal ids have equal keys, and the id stands in key or header."""
    name = None if item.id is None else id_bytes(item.id, 0)
    value = b"value %d of %s" % (item.version, name or b"none")
    if settings.id_from != "Header":
        return Record(name, value, now_ms, None)
    key = None if item.id is None else b"key %d" % (item.id % _KEYS)
    return Record(key, value, now_ms, [("id", name)] if name else None)
