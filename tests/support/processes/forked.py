"""Workers as processes that were forked from one that has imported everything.

A run of the tests starts hundreds of workers, and what one imports takes more CPU time than most of them live. Each
is a process of its own all the same: `python -m MODULE`, killed and paused like any other.
"""

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from signal import SIGKILL, SIGTERM
from threading import Lock
from time import sleep

from dedupe_local.run import child_process as tether
from dedupe_worker import process as worker_process
from dedupe_worker.kafka import producer as output

STOP_SECONDS = "TEST_STOP_SECONDS"
"""The environment variable that tells a worker how long it may take to stop after SIGTERM, in seconds."""

_IMPORTED = [
    "dedupe_worker.cli",
    "tests.support.processes.crashing_worker",
    "tests.support.processes.inner_worker",
]

_POLL_SECONDS = 0.02

_context = get_context("forkserver")


class ForkedProcess:
    """`python -m module arguments`, which logs to a new file; `environment` is added to this process's.

    It has a process group of its own, and ends with this process at the latest.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        log.touch(exist_ok=False)
        # Not when this is imported: tests that start operators, and no worker, have those imported.
        _context.set_forkserver_preload(_IMPORTED)
        self._process = _context.Process(
            target=_become,
            args=(module, list(map(str, arguments)), log, {**os.environ, **environment}),
        )
        self._process.start()
        self._polling = Lock()  # two threads that ask at once may be told of an end that was not
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """How it ended: its exit code, or minus a signal; None while it runs."""
        with self._polling:
            return self._process.exitcode

    def wait(self) -> int:
        """Wait for its end, and return what `poll` does then."""
        while (code := self.poll()) is None:
            sleep(_POLL_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(SIGKILL)


def become_own(log: Path) -> None:
    """Have a forked process end with the tests, in a process group of its own, its output going to `log`."""
    tether.die_with(os.getppid())  # the process that it was forked from, which ends with the tests
    os.setpgid(0, 0)
    with log.open("ab") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())


def _become(module: str, arguments: list[str], log: Path, environment: dict[str, str]) -> None:
    become_own(log)
    # A worker chooses its allocator by starting again, and there is no command that this one was started by.
    os.environ.clear()
    os.environ.update(environment, LD_PRELOAD="")
    sys.argv[1:] = arguments
    # What a busy machine makes late is no failure; the workers of tests/component/local/test_run.py and of the
    # tests on Kubernetes have the limits of the product.
    worker_process._STOP_SECONDS = float(environment.get(STOP_SECONDS, "50"))  # type: ignore[misc] # noqa: SLF001
    output._SETTLE_SECONDS = 60.0  # type: ignore[misc] # noqa: SLF001
    runpy.run_module(module, run_name="__main__", alter_sys=True)
