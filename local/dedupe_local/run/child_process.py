"""Child processes that cannot outlive this process, however it ends.

Two fleets at once would fence each other forever, so the workers of a killed runner must be gone before its successor
starts. Each child asks for SIGKILL on the death of its parent (`die_with_parent`). The kernel frees the files and locks
of the parent before it sends that signal, and a child with much memory takes some time to end. So a successor, which
has the lock of the run, also waits for the locks of the children (`state_dir`).

The kernel takes the thread that started a child for its parent. So all children are started by one thread that lives
as long as the interpreter.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from dedupe_crds.deadline import Deadline

_FIRST_SCRIPT = Path(__file__).with_name("die_with_parent.py")

_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="child-starter")


def spawn(
    command: Sequence[str | Path], *, output: IO[bytes], env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command that dies with this process.

    `output` gets its stdout and stderr. The child has its own process group. So a Ctrl-C in the terminal reaches only
    this process, which then stops its children in the right order.
    """
    return _starter.submit(
        subprocess.Popen,
        # -I -S: the standard library only, so that the script takes few milliseconds.
        [sys.executable, "-I", "-S", str(_FIRST_SCRIPT), str(os.getpid()), *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        process_group=0,
    ).result()


def stop(
    processes: Sequence[subprocess.Popen[bytes]],
    *,
    deadline_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """End processes with SIGTERM and, after one deadline for all of them, SIGKILL."""
    for process in processes:
        process.terminate()
    deadline = Deadline(deadline_seconds, clock=clock)
    for process in processes:
        try:
            process.wait(timeout=deadline.remaining())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stop_in_turn(
    groups: Sequence[Sequence[subprocess.Popen[bytes]]],
    *,
    deadline_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """End each group of processes once the group before it has ended.

    There is one deadline for all. A group may take an equal share of the time that is left, so each of them has some.
    """
    deadline = Deadline(deadline_seconds, clock=clock)
    for number, group in enumerate(groups):
        share = deadline.remaining() / (len(groups) - number)
        stop(group, deadline_seconds=share, clock=clock)
