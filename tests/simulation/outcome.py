"""Run one schedule, and say how it went."""

import logging
import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import structlog
from structlog.typing import EventDict

from tests.simulation import homes, machines
from tests.simulation.changed_world import ChangedWorld
from tests.simulation.judge import judge_direct, judge_routed
from tests.simulation.routed_world import RoutedWorld
from tests.simulation.schedule.changed import changed_schedule_of
from tests.simulation.schedule.generate import schedule_of
from tests.simulation.schedule.routed import routed_schedule_of
from tests.simulation.schedule.steps import Schedule
from tests.simulation.world import Stuck, World
from tests.support.checker.checker import Repeats

Listener = Callable[[str], None]


class Kind(StrEnum):
    """A kind of schedules. Each has seeds, a generator and a world of its own."""

    DIRECT = "direct"
    """The workers read the input."""
    ROUTERS = "routers"
    CHANGE = "change"
    """The workers read the input until the stream gets routers."""


_SCHEDULES: Final[Mapping[Kind, Callable[[int], Schedule]]] = {
    Kind.DIRECT: schedule_of,
    Kind.ROUTERS: routed_schedule_of,
    Kind.CHANGE: changed_schedule_of,
}
_WORLDS: Final = {Kind.DIRECT: World, Kind.ROUTERS: RoutedWorld, Kind.CHANGE: ChangedWorld}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a schedule went. `defects` is empty if all is right; `faults` are those that happened."""

    seed: int
    defects: tuple[str, ...]
    digest: str
    records: int
    sessions: int
    calls: int
    simulated_seconds: float
    faults: tuple[str, ...] = field(default=())
    repeats: Repeats = field(default_factory=Repeats)

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of the defects: a shrunk schedule must still have one of them."""
        return frozenset(each.partition(":")[0] for each in self.defects)


def run(schedule: Schedule, listen: Listener | None = None) -> Outcome:
    """Run a schedule on volumes in memory."""
    machines.unexpected.clear()
    home = homes.make()
    routed = bool(schedule.settings.inputs)
    simulated = _WORLDS[kind_of(schedule)](schedule, home, listen)
    defects: list[str] = []
    repeats = Repeats()
    try:
        simulated.run()
    except Stuck as error:
        defects.append(f"stuck: {error}")
    except Exception:  # noqa: BLE001 (a bug of the simulation must name its seed, too)
        defects.append(f"simulation: {traceback.format_exc()}")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    defects += simulated.crashes
    # The product tries again after an error that has no name. Here the clients raise none, so it is a defect.
    defects += [f"crashed: an unexpected error: {each}" for each in machines.unexpected]
    if not defects:
        judge = judge_routed if routed else judge_direct
        found, repeats = judge(simulated.recorder, schedule.settings)
        defects += found
    return Outcome(
        seed=schedule.seed,
        defects=tuple(defects),
        digest=simulated.digest,
        records=simulated.records,
        sessions=simulated.sessions,
        calls=simulated.calls,
        simulated_seconds=simulated.clock.monotonic(),
        faults=tuple(simulated.performed),
        repeats=repeats,
    )


def silence_logs(*, keep: bool = True) -> None:
    """Let the worker log nothing: formatting costs a third of a schedule's time.

    `keep`: up to the end of the process. That saves time for each line, as a logger asks once only.
    """
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        processors=[_drop_but_exceptions],
        cache_logger_on_first_use=keep,
    )


def _drop_but_exceptions(_: object, __: str, event: EventDict) -> str:
    if event.pop("exc_info", None):
        machines.unexpected.append(traceback.format_exc())
    raise structlog.DropEvent


def schedule_for(seed: int, kind: Kind = Kind.DIRECT) -> Schedule:
    """Return the schedule of a seed."""
    return _SCHEDULES[kind](seed)


def kind_of(schedule: Schedule) -> Kind:
    """Return the kind of a schedule."""
    settings = schedule.settings
    if settings.direct:
        return Kind.CHANGE
    return Kind.ROUTERS if settings.inputs else Kind.DIRECT


def run_seed(seed: int, kind: Kind = Kind.DIRECT) -> Outcome:
    """Run the schedule of a seed."""
    return run(schedule_for(seed, kind))


def run_seeds(seeds: Sequence[int], kind: Kind = Kind.DIRECT) -> list[Outcome]:
    """Run the schedules of some seeds, in a process of the runner."""
    return [run_seed(each, kind) for each in seeds]
