"""Binding of processes to processor cores."""

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path

Cores = AbstractSet[int]


def available_cores() -> list[int]:
    """Return the cores that this process may run on, in order."""
    return sorted(os.sched_getaffinity(0))


def pin(pid: int, cores: Cores) -> None:
    """Bind all threads of a process to `cores`. Raises OSError.

    Threads that it starts later inherit that.
    """
    bound: set[int] = set()
    while new := {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()} - bound:
        for thread in new:
            try:
                os.sched_setaffinity(thread, cores)
            except ProcessLookupError:  # a thread that has ended meanwhile
                continue
        bound |= new


@contextmanager
def pinned(*pids: int, cores: Cores) -> Iterator[None]:
    """Bind processes to `cores` while the block lasts.

    Afterwards they may run wherever this process could.
    """
    before = set(available_cores())
    for pid in pids:
        pin(pid, cores)
    try:
        yield
    finally:
        for pid in pids:
            pin(pid, before)
