"""Actions on a stream that gets routers in place."""

from dataclasses import dataclass

from tests.simulation.changed_world import ChangedWorld, End
from tests.simulation.schedule.input import Item, shown
from tests.simulation.schedule.routers import routed_record
from tests.simulation.schedule.settings import input_topic
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class AddRouters:
    """Add `spec.repartition` to the manifest: an end for each worker, a start for each router and the controller."""

    ends: tuple[End, ...]
    starts: tuple[float, ...]
    offsets_expire: bool = False
    fault = "routers added"

    def perform(self, world: World, partition: int) -> None:  # noqa: ARG002 (there is one manifest)
        """Change it."""
        _changed(world).add_routers(self.ends, self.starts, offsets_expire=self.offsets_expire)


@dataclass(frozen=True, slots=True)
class OldManifest:
    """Start a worker with the manifest of before for a while, on its `own` volume or as a second worker."""

    volume: str
    seconds: float

    @property
    def fault(self) -> str:
        """Name it."""
        return f"old manifest ({self.volume})"

    def perform(self, world: World, partition: int) -> None:
        """Start it."""
        _changed(world).start_old(partition, self.volume, self.seconds)


@dataclass(frozen=True, slots=True)
class SendCopies:
    """Send records to any partition; while workers may still read the input, to the partition of each id."""

    topic: int
    partition: int
    items: tuple[Item, ...]

    process = "r"
    fault = None

    def __str__(self) -> str:
        return f"anywhere, {input_topic(self.topic)}/{self.partition}: {shown(self.items)}"

    def perform(self, world: World, partition: int) -> None:  # noqa: ARG002 (it is about no router)
        """Append them, with timestamps of now."""
        now_ms = world.clock.time_ms()
        records = [
            (each.id or 0, routed_record(each, now_ms, world.settings)) for each in self.items
        ]
        _changed(world).send_copies(self.topic, self.partition, records)


@dataclass(frozen=True, slots=True)
class RetainRead:
    """Delete the records of an input partition that are read."""

    fault = "input retention"

    def perform(self, world: World, partition: int) -> None:
        """Delete them."""
        changed = _changed(world)
        changed.retain_read(partition % changed.settings.direct)


def _changed(world: World) -> ChangedWorld:
    assert isinstance(world, ChangedWorld), "a step of a change is of a stream that gets routers"
    return world
