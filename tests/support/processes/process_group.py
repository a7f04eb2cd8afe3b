"""A process in a group of its own, of which nothing is left in the end."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import psutil

_DEADLINE_SECONDS: Final = 180.0


@contextmanager
def process_group(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start a command, with `env` beside this process's variables, and kill what is left of it when the block ends."""
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
            left = [one for one in psutil.process_iter() if _group(one) == started.pid]
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
            started.wait(_DEADLINE_SECONDS)
            # A JVM whose Python was killed ends by itself; if it does not, the test has to fail.
            _, alive = psutil.wait_procs(left, timeout=_DEADLINE_SECONDS)
            for one in alive:
                one.kill()
            assert not alive


def _group(one: psutil.Process) -> int | None:
    try:
        return os.getpgid(one.pid)
    except ProcessLookupError:
        return None
