"""The clock, and that nothing in worker and router reads the time around it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

import dedupe_crds
import dedupe_router
import dedupe_worker
from dedupe_crds.clock import SYSTEM_CLOCK
from tests.unit.worker.still_clock import StillClock

OWN = Path(dedupe_crds.__path__[0]) / "clock.py"
_READS = {"now", "utcnow", "today"}
MODULES = {
    path.relative_to(folder.parent).as_posix(): path
    for folder in map(Path, (*dedupe_worker.__path__, *dedupe_router.__path__))
    for path in folder.rglob("*.py")
}


def test_all_times_are_of_one_clock() -> None:
    clock = StillClock()
    assert clock.time_ms() == 1_000_000
    assert clock.now().timestamp() == 1_000
    deadline = clock.deadline(5)
    assert deadline.pause(3)
    assert clock.seconds == 1_003
    assert deadline.pause(3)
    assert (deadline.expired, clock.seconds) == (True, 1_005)


def test_a_stop_ends_the_pauses_of_a_deadline() -> None:
    stop = Event()
    deadline = SYSTEM_CLOCK.deadline(60, stop)
    assert deadline.pause(0)
    stop.set()
    assert not deadline.pause(60)


def reads_of_the_time(module: Path) -> Iterator[str]:
    """Every place at which a module reads the time or sleeps without a clock that it was given."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.Import(names=names) if any(name.name == "time" for name in names):
                yield f"{module.name}:{node.lineno}: import time"
            case ast.ImportFrom(module="time"):
                yield f"{module.name}:{node.lineno}: from time import"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=attr)):
                if attr in _READS:
                    yield f"{module.name}:{node.lineno}: {attr}()"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_process_reads_the_time_through_a_clock(name: str) -> None:
    assert list(reads_of_the_time(MODULES[name])) == []


def test_a_module_that_reads_the_time_is_found() -> None:
    assert len(list(reads_of_the_time(OWN))) == 1
