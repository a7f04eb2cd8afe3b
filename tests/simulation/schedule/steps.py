"""A schedule: settings and a list of steps, each with the moment at which it happens.

A moment is counted from the step before, in calls of the partition's worker or in simulated seconds. So a schedule
stays meaningful when some of its steps are left out, which is what shrinking does.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tests.simulation.kafka.calls import Moment
from tests.simulation.schedule.settings import Settings

if TYPE_CHECKING:
    from tests.simulation.world import World


class Action(Protocol):
    """What a step does. A dataclass, so that it shows its parameters.

    One about a router or the controller instead of a worker has an attribute `process`, the first letter of its seat.
    """

    @property
    def fault(self) -> str | None:
        """Return the fault's name for the statistics; None for input."""

    def perform(self, world: "World", partition: int) -> None:
        """Do it. In the fiber of the partition's worker this may raise what its call is to raise."""


@dataclass(frozen=True, slots=True)
class When:
    """The `number`th call of this name and moment since the step before; at the latest after `seconds`.

    Any call without a name. With number 0 only time counts.
    """

    number: int = 1
    name: str | None = None
    moment: Moment | None = None
    seconds: float = 5.0

    def __str__(self) -> str:
        if not self.number:
            return f"after {self.seconds:g} s"
        place = f"{self.moment.value} " if self.moment else ""
        return f"{place}call {self.number}" + (f" of {self.name}" if self.name else "")


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `partition` is that of the worker, or the number of the router, that the action is about."""

    when: When
    partition: int
    action: Action

    @property
    def seat(self) -> str:
        """Return the place of the process whose calls are counted, see process.py."""
        return f"{getattr(self.action, 'process', 'p')}{self.partition}"

    def __str__(self) -> str:
        return f"{self.when}, {self.seat}: {self.action}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that happens to a stream. `seed` also decides how processes interleave."""

    seed: int
    settings: Settings
    steps: tuple[Step, ...]

    @property
    def faults(self) -> list[str]:
        """Return the names of the faults, in order."""
        return [each.action.fault for each in self.steps if each.action.fault]
