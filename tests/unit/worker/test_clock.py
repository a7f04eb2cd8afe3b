"""Nothing in worker and router reads the time around the clock."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dedupe_crds
import dedupe_router
import dedupe_worker

OWN = Path(dedupe_crds.__path__[0]) / "clock.py"
_READS = {"now", "utcnow", "today"}
MODULES = {
    path.relative_to(folder.parent).as_posix(): path
    for folder in map(Path, (*dedupe_worker.__path__, *dedupe_router.__path__))
    for path in folder.rglob("*.py")
}


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
