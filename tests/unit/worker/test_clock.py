"""Nothing in the worker reads the time around the clock that it was given."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dedupe_worker
from dedupe_crds import clock

WORKER = Path(dedupe_worker.__file__).parent
_READS = {"now", "utcnow", "today"}
MODULES = {path.relative_to(WORKER).as_posix(): path for path in WORKER.rglob("*.py")}


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
def test_the_worker_reads_the_time_through_a_clock(name: str) -> None:
    assert list(reads_of_the_time(MODULES[name])) == []


def test_a_module_that_reads_the_time_is_found() -> None:
    assert len(list(reads_of_the_time(Path(clock.__file__)))) == 1
