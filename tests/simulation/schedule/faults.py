"""Actions on processes, volumes and clocks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dedupe_worker.admin.commands import Command
from tests.simulation.kafka.failures import failure
from tests.simulation.schedule.input import id_bytes

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Crash:
    """End a worker at once, and start it again; `power`: what was not synced to its volume is lost."""

    power: bool = False
    down_seconds: float = 1.0

    @property
    def fault(self) -> str:
        """Name it."""
        return "power loss" if self.power else "kill"

    def perform(self, world: "World", partition: int) -> None:
        """Kill it."""
        world.restart_later(partition, self.down_seconds)
        world.kill(partition, power=self.power)


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a worker with SIGTERM, and start it again."""

    down_seconds: float = 1.0
    fault = "stop"

    def perform(self, world: "World", partition: int) -> None:
        """Stop it."""
        world.restart_later(partition, self.down_seconds)
        world.stop(partition)


@dataclass(frozen=True, slots=True)
class Freeze:
    """Let a worker stand still, as while its machine sleeps."""

    seconds: float
    fault = "freeze"

    def perform(self, world: "World", partition: int) -> None:
        """Freeze it."""
        world.freeze(partition, self.seconds)


@dataclass(frozen=True, slots=True)
class FailCall:
    """Let a call fail; the moment of the step decides whether it has taken effect."""

    code: int
    ambiguous: bool
    retriable: bool = True

    @property
    def fault(self) -> str:
        """Name it."""
        return "ambiguous call" if self.ambiguous else "failed call"

    def perform(self, world: "World", partition: int) -> None:
        """Raise the error, if the partition's worker is the caller."""
        if world.is_running(partition):
            raise failure(self.code, retriable=self.retriable)


@dataclass(frozen=True, slots=True)
class SecondWorker:
    """Start another worker of the partition while the first one runs on.

    Its volume is `empty`, a `copy` of the first one's as it is now, or the last `snapshot`.
    """

    volume: str

    @property
    def fault(self) -> str:
        """Name it."""
        return f"second worker ({self.volume})"

    def perform(self, world: "World", partition: int) -> None:
        """Start it."""
        world.start_second(partition, self.volume)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Keep a copy of the volume as it is now, for a later restore."""

    fault = None

    def perform(self, world: "World", partition: int) -> None:
        """Copy it."""
        world.take_snapshot(partition)


@dataclass(frozen=True, slots=True)
class ReplaceVolume:
    """Kill a worker, and start it again with another volume: `empty`, or the last `snapshot`."""

    volume: str
    down_seconds: float = 1.0

    @property
    def fault(self) -> str:
        """Name it."""
        return "volume lost" if self.volume == "empty" else "snapshot restored"

    def perform(self, world: "World", partition: int) -> None:
        """Kill the worker, with the volume replaced before its next start."""
        world.replace_volume(partition, self.volume)
        world.restart_later(partition, self.down_seconds)
        world.kill(partition, power=False)


@dataclass(frozen=True, slots=True)
class SwapVolumes:
    """Kill two workers, and start each with the volume of the other for a while."""

    other: int
    seconds: float = 5.0
    fault = "volumes swapped"

    def perform(self, world: "World", partition: int) -> None:
        """Swap them, and back."""
        world.swap_volumes(partition, self.other, self.seconds)


@dataclass(frozen=True, slots=True)
class DamageStore:
    """Kill a worker, and change a byte in a file of its store."""

    place: float
    fault = "store damaged"

    def perform(self, world: "World", partition: int) -> None:
        """Damage it once the worker is down."""
        world.damage_later(partition, self.place)
        world.restart_later(partition, 1.0)
        world.kill(partition, power=False)


@dataclass(frozen=True, slots=True)
class StepClock:
    """Set the wall clock forward, or back."""

    seconds: float

    @property
    def fault(self) -> str:
        """Name it."""
        return "clock forward" if self.seconds > 0 else "clock back"

    def perform(self, world: "World", partition: int) -> None:  # noqa: ARG002 (one clock for all)
        """Set it."""
        world.step_clock(self.seconds)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Ask the worker for a checkpoint."""

    fault = "checkpoint"

    def perform(self, world: "World", partition: int) -> None:
        """Ask."""
        command: Command = lambda store: store.checkpoint()  # noqa: E731 (typed)
        world.command(partition, command)


@dataclass(frozen=True, slots=True)
class Forget:
    """Ask the worker to forget ids."""

    ids: tuple[int, ...]
    fault = "forget"

    def perform(self, world: "World", partition: int) -> None:
        """Ask."""
        world.forget(partition, [id_bytes(each, partition) for each in self.ids])


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Ask the worker to compare its store with the output."""

    number: int
    full: bool
    fault = "reconcile"

    def perform(self, world: "World", partition: int) -> None:
        """Ask."""
        world.reconcile(partition, f"request-{self.number}", full=self.full)
