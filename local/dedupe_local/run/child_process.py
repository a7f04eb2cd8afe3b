"""Child processes that cannot outlive this one, however it ends.

Two fleets at once would fence each other for ever, so the workers of a runner that was killed must
be gone before its successor starts. The kernel sees to it: a child asks for SIGKILL on the death of
its parent (prctl, Linux) and then becomes the real command, so its pid stays the same.

The kernel takes the thread that started a child for its parent. That is why all of them are started
by one thread that lives as long as the interpreter.

Run as a script (`python tether.py PARENT_PID COMMAND…`), this file is the first thing a child does.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1

_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tether")


def spawn(
    command: Sequence[str | Path], *, output: IO[bytes], env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command that dies with this process, stdout and stderr going to `output`.

    It is in a process group of its own, so that a Ctrl-C in the terminal reaches only this process,
    which then stops its children in the right order.
    """
    return _starter.submit(
        subprocess.Popen,
        # -I -S: nothing but the standard library, so that it takes few milliseconds.
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        process_group=0,
    ).result()


def stop(processes: Sequence[subprocess.Popen[bytes]], *, deadline_seconds: float) -> None:
    """End processes with SIGTERM and, after one deadline for all of them, SIGKILL."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + deadline_seconds
    for process in processes:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends; end it at once if that is not its parent any more."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew of the wish
        sys.exit(1)


def _become(parent: int, command: list[str]) -> None:
    die_with(parent)
    os.execvp(command[0], command)  # noqa: S606 # the whole purpose of this file


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
