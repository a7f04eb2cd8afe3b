"""Worker processes, forked from a process that has imported everything.

The tests start hundreds of workers, and the imports of a worker take more CPU time than most of them run. Each is still
a separate process, `python -m MODULE`, that can be killed and paused like any other.
"""

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from signal import SIGKILL, SIGTERM
from threading import Lock

from dedupe_local.run.die_with_parent import die_with
from dedupe_worker import process as worker_process
from dedupe_worker.kafka import producer as output
from tests.support.patience import wait_for

STOP_SECONDS = "TEST_STOP_SECONDS"
"""Environment variable: the seconds that a worker may take to stop after SIGTERM."""

_IMPORTED = [
    "dedupe_router.cli",
    "dedupe_worker.cli",
    "tests.support.crashes.crashing_worker",
    "tests.support.crashes.inner_worker",
]

_POLL_SECONDS = 0.02

_context = get_context("forkserver")


class ForkedProcess:
    """`python -m module arguments`, which logs to a new file.

    `environment` is added to this process's. It has its own process group, and ends with this process at the latest.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        log.touch(exist_ok=False)
        # Not at import: tests that start operators, but no worker, preload other modules.
        _context.set_forkserver_preload(_IMPORTED)
        self._process = _context.Process(
            target=_become,
            args=(module, list(map(str, arguments)), log, {**os.environ, **environment}),
        )
        self._process.start()
        self._polling = (
            Lock()
        )  # two threads that poll at the same time may see an exit that did not happen
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return its exit code, minus a signal's number, or None while it runs."""
        with self._polling:
            return self._process.exitcode

    def wait(self) -> int:
        """Wait for its end, and return the exit code as `poll` does."""
        wait_for(lambda: self.poll() is not None, "it has ended", poll_seconds=_POLL_SECONDS)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(SIGKILL)


def become_own(log: Path) -> None:
    """Detach this forked process: own process group, output to `log`.

    It still ends with the tests.
    """
    die_with(os.getppid())  # the fork server, which ends with the tests
    os.setpgid(0, 0)
    with log.open("ab") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())


def _become(module: str, arguments: list[str], log: Path, environment: dict[str, str]) -> None:
    become_own(log)
    # A worker changes its allocator by exec of its own command, which a forked process does not have.
    os.environ.clear()
    os.environ.update(environment, LD_PRELOAD="")
    sys.argv[1:] = arguments
    # A delay on a busy machine is no failure. The workers of tests/component/local/test_run.py and of the tests on
    # Kubernetes have the limits of the product.
    worker_process._STOP_SECONDS = float(environment.get(STOP_SECONDS, "50"))  # type: ignore[misc] # noqa: SLF001
    output._FLUSH_SECONDS = 60.0  # type: ignore[misc] # noqa: SLF001
    runpy.run_module(module, run_name="__main__", alter_sys=True)
