"""A limit of memory that the kernel enforces: a control group, of version 1 or 2, for the processes that are measured.

The group is made below the one that this process is in (version 2: below the nearest one that hands the memory
controller on), so that whatever bounds this process bounds those, too. What it limits is all that a container's limit
does: the memory of its processes and the pages of files that they have touched.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from benchmarks.harness.processes import BenchmarkFailed

_ROOT: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "dedupestream-scale-"
_REMOVE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05


class NoLimit(BenchmarkFailed):
    """No control group can be made here."""


class _Files(NamedTuple):
    """The names of one version's files."""

    limit: str
    no_swap: tuple[str, str]
    peak: str


_V1: Final = _Files(
    limit="memory.limit_in_bytes",
    no_swap=("memory.swappiness", "0"),
    peak="memory.max_usage_in_bytes",
)
_V2: Final = _Files(
    limit="memory.max",
    no_swap=("memory.swap.max", "0"),
    peak="memory.peak",
)


class MemoryLimit:
    """A context manager: the group is there inside of it. Processes started within `entered()` are in the group.

    Raises NoLimit where it can't be made.
    """

    def __init__(self, limit_bytes: int, *, root: Path = _ROOT, own: str | None = None) -> None:
        own = Path("/proc/self/cgroup").read_text() if own is None else own
        self._home, parent, self._files = _find(root, own)
        self.limit_bytes = limit_bytes
        self._group = parent / f"{_PREFIX}{os.getpid()}"

    def __enter__(self) -> Self:
        files = self._files
        try:
            for left in self._group.parent.glob(f"{_PREFIX}*"):  # by a run that was killed
                with suppress(OSError):
                    left.rmdir()
            self._group.mkdir()
            (self._group / files.limit).write_text(str(self.limit_bytes))
            with suppress(FileNotFoundError):  # of a kernel without swap
                (self._group / files.no_swap[0]).write_text(files.no_swap[1])
        except OSError as error:
            raise NoLimit(
                f"{self._group} can't be made a control group with a limit of memory: {error.strerror}. "
                "Run this as root, on a machine or in a privileged container, or measure without the limit: --no-limit"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self._group.exists():
            try:
                self._group.rmdir()
            except OSError:  # the last process has not quite gone
                if time.monotonic() > deadline:
                    return
                time.sleep(_POLL_SECONDS)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This process is in the group meanwhile, so that a child is from its first instruction on."""
        _move(self._group)
        try:
            yield
        finally:
            _move(self._home)

    def peak_bytes(self) -> int:
        """The most that its processes have held together, files' pages included; 0 where the kernel does not tell."""
        try:
            return int((self._group / self._files.peak).read_text())
        except FileNotFoundError:  # version 2 before Linux 5.19
            return 0


def _move(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _find(root: Path, own: str) -> tuple[Path, Path, _Files]:
    """This process's group, that in which one can be made, and the files' names. Raises NoLimit.

    `own` is the text of /proc/self/cgroup: lines of "number:controllers:path", the second empty for version 2.
    """
    paths = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path.lstrip("/")
    first = root / "memory"
    if "memory" in paths and (first / paths["memory"]).is_dir():
        home = first / paths["memory"]
        return home, home, _V1
    home = root / paths.get("", "")
    for parent in (home, *home.parents):
        if "memory" in _read(parent / "cgroup.subtree_control").split():
            return home, parent, _V2
        if parent == root:
            break
    raise NoLimit(
        f"no control group above {home} hands on the memory controller. Run this on a machine where one does "
        "(systemd-run --scope does), or measure without the limit: --no-limit"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
