"""The tracer sees the modules of the product that a call enters, and how they come back."""

import gc
import sys
import threading
from types import ModuleType

import pytest

from tests.support.tracer import (
    Entry,
    Tracer,
    calls_upward,
    order_of_first_entries,
    returns_of,
)

SOURCES = {
    "dedupe_a": """
import dedupe_b, dedupe_c
def go():
    dedupe_b.go()
    dedupe_c.leaf()
    dedupe_b.go()
def helper():
    pass
""",
    "dedupe_b": """
import dedupe_c
from dataclasses import dataclass
@dataclass
class Value:
    x: int = 0
def go():
    Value()
    dedupe_c.Made()
    sum(dedupe_c.leaf() for _ in range(2))
""",
    "dedupe_c": """
import dedupe_a
class Made:
    def __init__(self):
        dedupe_a.helper()
def leaf():
    class Inner:
        pass
    return 1
def left_open(kept):
    try:
        yield
    finally:
        kept.clear()
""",
}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Three modules: a calls b and c, b calls c."""
    for name in SOURCES:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name, source in SOURCES.items():
        exec(compile(source, f"{name}.py", "exec"), sys.modules[name].__dict__)  # noqa: S102 (the sources above)
    return sys.modules["dedupe_a"]


def traced(tracer: Tracer, go: ModuleType, start_at: str | None = None) -> list[Entry]:
    with tracer.installed(), tracer.record(start_at):
        go.go()
    return tracer.entries


def test_calls_into_another_module_are_recorded_with_their_caller(modules: ModuleType) -> None:
    entries = traced(Tracer(), modules)
    assert entries[:2] == [
        Entry(None, "dedupe_a", "go"),
        Entry("dedupe_a", "dedupe_b", "go"),
    ]
    assert order_of_first_entries(entries) == ["dedupe_a", "dedupe_b", "dedupe_c"]


def test_class_bodies_constructors_and_generator_expressions_do_not_count(
    modules: ModuleType,
) -> None:
    functions = {entry.function for entry in traced(Tracer(), modules)}
    assert functions == {"go", "leaf"}


def test_an_ignored_module_works_for_its_caller(modules: ModuleType) -> None:
    entries = traced(Tracer(ignored=lambda name: name == "dedupe_b"), modules)
    assert {entry.caller for entry in entries if entry.module == "dedupe_c"} == {"dedupe_a"}


def test_a_recording_begins_where_it_is_told_to(modules: ModuleType) -> None:
    entries = traced(Tracer(), modules, start_at="dedupe_c:leaf")
    assert entries[0] == Entry("dedupe_b", "dedupe_c", "leaf")


def test_threads_that_start_inside_are_watched(modules: ModuleType) -> None:
    tracer = Tracer()
    with tracer.installed(), tracer.record():
        thread = threading.Thread(target=modules.go)
        thread.start()
        thread.join()
    assert tracer.entries[0] == Entry(None, "dedupe_a", "go")


def test_what_an_earlier_test_left_to_the_garbage_collector_does_not_count(
    modules: ModuleType,
) -> None:
    left: list[object] = []
    left.append(sys.modules["dedupe_c"].left_open(left))
    next(left[0])  # type: ignore[call-overload] # a generator, which the list holds, and which holds the list
    del left
    tracer = Tracer()
    with tracer.installed(), tracer.record():
        assert not gc.isenabled()
        gc.collect()
        modules.go()
    assert gc.isenabled()
    assert tracer.entries[0] == Entry(None, "dedupe_a", "go")


def test_nothing_is_recorded_after_stop(modules: ModuleType) -> None:
    tracer = Tracer()
    with tracer.installed(), tracer.record():
        tracer.stop()
        modules.go()
    modules.go()
    assert tracer.entries == []


def test_a_leader_that_enters_a_module_again_is_seen(modules: ModuleType) -> None:
    entries = traced(Tracer(), modules)
    assert returns_of("dedupe_a", entries) == {("dedupe_a", "dedupe_b")}
    assert calls_upward(entries) == set()


def test_a_call_back_to_a_module_that_calls_on_is_seen() -> None:
    entries = [Entry(None, "a", ""), Entry("a", "b", ""), Entry("b", "c", "")]
    assert calls_upward(entries) == set()
    assert calls_upward([*entries, Entry("c", "b", "")]) == {("c", "b")}
