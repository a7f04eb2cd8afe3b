"""A process in its own group, which is killed as a whole at the end."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil

from tests.support.patience import HANG_SECONDS


@contextmanager
def process_group(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a command in its own group, and kill the rest of the group at the end.

    `env` is added to this process's variables.
    """
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(env or {})},
    ) as started:
        try:
            yield started
        finally:
            left = [process for process in psutil.process_iter() if _group(process) == started.pid]
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
            started.wait(HANG_SECONDS)
            # A JVM whose Python was killed must end without help; if it does not, the test fails.
            _, alive = psutil.wait_procs(left, timeout=HANG_SECONDS)
            for process in alive:
                process.kill()
            assert not alive


def _group(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None
