"""A memory limit enforced by the kernel: a control group, version 1 or 2.

The group is created below the group of this process (version 2: below the nearest group that delegates the memory
controller), so whatever limits this process also limits the measured processes. It limits what a container's limit
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
    """The names of a version's files."""

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
    """A control group that exists inside of its context.

    Processes started within `entered()` are in the group. Raises NoLimit where it can't be created.
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
        """Put this process in the group, so that a child is in it from its start."""
        _move(self._group)
        try:
            yield
        finally:
            _move(self._home)

    def peak_bytes(self) -> int:
        """Return the most memory that its processes have used together.

        Pages of files are included; 0 where the kernel does not report it.
        """
        try:
            return int((self._group / self._files.peak).read_text())
        except FileNotFoundError:  # version 2 before Linux 5.19
            return 0


def _move(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _find(root: Path, own: str) -> tuple[Path, Path, _Files]:
    """Return this process's group, the parent of the new group, and its files' names.

    `own` is the text of /proc/self/cgroup: lines of "number:controllers:path", the second empty for version 2. Raises
    NoLimit.
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
        f"no control group above {home} delegates the memory controller. Run this on a machine where one does "
        "(systemd-run --scope does), or measure without the limit: --no-limit"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
