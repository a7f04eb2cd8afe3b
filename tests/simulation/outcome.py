"""Run one schedule, and say how it went."""

import logging
import shutil
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from structlog.typing import EventDict

from tests.simulation import homes, machines
from tests.simulation.judge import defects_of, routed_defects_of
from tests.simulation.routed_world import RoutedWorld
from tests.simulation.schedule.generate import schedule_of
from tests.simulation.schedule.routed import routed_schedule_of
from tests.simulation.schedule.steps import Schedule
from tests.simulation.world import Stuck, World

Listener = Callable[[str], None]


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

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of the defects: a shrunk schedule must still have one of them."""
        return frozenset(each.partition(":")[0] for each in self.defects)


def run(schedule: Schedule, listen: Listener | None = None) -> Outcome:
    """Run a schedule on volumes in memory."""
    home = homes.make()
    routed = bool(schedule.settings.inputs)
    simulated = (RoutedWorld if routed else World)(schedule, home, listen)
    defects: list[str] = []
    try:
        simulated.run()
    except Stuck as error:
        defects.append(f"stuck: {error}")
    except Exception:  # noqa: BLE001 (a bug of the simulation must name its seed, too)
        defects.append(f"simulation: {traceback.format_exc()}")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    defects += simulated.crashes
    if not defects:
        judge = routed_defects_of if routed else defects_of
        defects += judge(simulated.recorder, schedule.settings)
    return Outcome(
        seed=schedule.seed,
        defects=tuple(defects),
        digest=simulated.digest,
        records=simulated.records,
        sessions=simulated.sessions,
        calls=simulated.calls,
        simulated_seconds=simulated.clock.monotonic(),
        faults=tuple(simulated.performed),
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


def schedule_for(seed: int, *, routed: bool = False) -> Schedule:
    """Return the schedule of a seed: of a stream with routers, or of one whose workers read the input."""
    return routed_schedule_of(seed) if routed else schedule_of(seed)


def run_seed(seed: int, *, routed: bool = False) -> Outcome:
    """Run the schedule of a seed."""
    return run(schedule_for(seed, routed=routed))


def run_seeds(seeds: Sequence[int], *, routed: bool = False) -> list[Outcome]:
    """Run the schedules of some seeds, in a process of the runner."""
    return [run_seed(each, routed=routed) for each in seeds]
