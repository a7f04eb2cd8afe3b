"""The directories in memory in which schedules run.

All of a process are below one directory, which names the process and is locked by it. A process that was killed could
remove nothing, so the next one removes each directory that nobody holds.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 (a directory of its own is made below it)
_PREFIX: Final = "dedupe-sim-"
_LOCK: Final = "lock"


def make(below: Path | None = None) -> Path:
    """Make a directory for one schedule, which removes it."""
    memory = below or (_MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(dir=_of_process(memory, os.getpid())))


@cache
def _of_process(memory: Path, process: int) -> Path:
    """Make this process's directory; it stays locked until the process ends."""
    remove_left(memory)
    own = memory / f"{_PREFIX}{process}"
    own.mkdir(exist_ok=True)
    fcntl.flock(os.open(own / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC), fcntl.LOCK_EX)
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def remove_left(memory: Path) -> None:
    """Remove the directories of processes that have ended."""
    for path in memory.glob(f"{_PREFIX}*"):
        number = path.name.removeprefix(_PREFIX)
        if number.isdecimal() and not _is_running(int(number)) and not _is_held(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_running(process: int) -> bool:
    return Path("/proc", str(process)).exists()


def _is_held(path: Path) -> bool:
    """Return whether a process holds it, which may be in another container."""
    with suppress(FileNotFoundError), (path / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
