"""Record which modules of the product a piece of work enters, in their order, and from where.

The test of docs/architecture.md compares its walks with that. A module is entered by a call from another module of the
product, or by the first call of a thread. These do not count: imports and class bodies; constructors and what they
call, because they only make what is entered later; generator expressions, because they run where they are read.
"""

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Final, NamedTuple

_PRODUCT: Final = "dedupe_"
_GENERATED: Final = "<string>"  # the methods that `dataclass` makes
_CONSTRUCTORS: Final = frozenset({"__init__", "__post_init__"})


class Entry(NamedTuple):
    """One call into a module; the caller is None where a thread or the walk begins."""

    caller: str | None
    module: str
    function: str


@dataclass(slots=True)
class Tracer:
    """Records entries of all watched threads, in the order of time.

    Modules for which `ignored` returns True count as if their callers did the work. `stands_for` names the module of
    the product that a module of fakes replaces. With `start_at` set to "MODULE:FUNCTION", a recording begins only when
    that function is called.
    """

    ignored: Callable[[str], bool] = lambda _: False
    stands_for: Mapping[str, str] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    recording: bool = False
    start_at: str | None = None
    _known: dict[CodeType, str | None] = field(default_factory=dict)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Watch this thread and those that start inside the block; record nothing yet.

        Without garbage collection, which runs the `finally` blocks of what earlier tests left, at any moment.
        """
        gc.collect()
        gc.disable()
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            gc.enable()

    @contextmanager
    def record(self, start_at: str | None = None) -> Iterator[None]:
        """Record what the watched threads enter inside the block, until `stop`."""
        self.start_at = start_at
        self.recording = start_at is None
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """End the recording."""
        self.recording, self.start_at = False, None

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not (self.recording or self.start_at):
            return
        module = self._module(frame)
        if module is None or _is_constructor(frame):
            return
        function = frame.f_code.co_qualname
        if self.start_at == f"{module}:{function}":
            self.recording, self.start_at = True, None
        if not self.recording:
            return
        below = frame.f_back
        while below is not None and self._module(below) is None:
            below = below.f_back
        if below is None:
            self.entries.append(Entry(None, module, function))
            return
        caller = self._module(below)
        if caller != module and not self._constructs(below):
            self.entries.append(Entry(caller, module, function))

    def _constructs(self, frame: FrameType | None) -> bool:
        """Return whether a constructor of the product is on the stack."""
        while frame is not None:
            if _is_constructor(frame) and self._module(frame) is not None:
                return True
            frame = frame.f_back
        return False

    def _module(self, frame: FrameType) -> str | None:
        """Return the module of a frame; None if it does not count."""
        code = frame.f_code
        if code not in self._known:
            name = str(frame.f_globals.get("__name__", ""))
            name = self.stands_for.get(name, name)
            counts = (
                name.startswith(_PRODUCT)
                and code.co_flags & CO_OPTIMIZED  # neither a module's body nor a class's
                and code.co_filename != _GENERATED
                and code.co_name != "<genexpr>"
                and not self.ignored(name)
            )
            self._known[code] = name if counts else None
        return self._known[code]


def _is_constructor(frame: FrameType) -> bool:
    return frame.f_code.co_name in _CONSTRUCTORS


def order_of_first_entries(entries: Sequence[Entry]) -> list[str]:
    """Return each module once, in the order in which they were first entered."""
    return list(dict.fromkeys(entry.module for entry in entries))


def calls_upward(entries: Sequence[Entry]) -> set[tuple[str, str]]:
    """Return (caller, module) of each call to a module that was entered before its caller.

    A module that calls no other is left out: it answers, and the walk continues where it was.
    """
    place = {module: at for at, module in enumerate(order_of_first_entries(entries))}
    calls_on = {entry.caller for entry in entries}
    return {
        (entry.caller, entry.module)
        for entry in entries
        if entry.caller is not None
        and entry.module in calls_on
        and place.get(entry.caller, -1) > place[entry.module]
    }


def returns_of(leader: str, entries: Sequence[Entry]) -> set[tuple[str, str]]:
    """Return (leader, module) of each module that the leader enters again after another one."""
    visits = [entry.module for entry in entries if entry.caller == leader]
    runs = [module for at, module in enumerate(visits) if at == 0 or visits[at - 1] != module]
    return {(leader, module) for module in runs if runs.count(module) > 1}
