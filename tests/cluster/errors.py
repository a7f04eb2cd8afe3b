"""The error of the cluster tools, and a function to run commands."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

from tests.support.patience import patience

_SHOWN_LINES = 20
_SLICE_SECONDS = 0.5


class ClusterError(Exception):
    """The cluster, or an object in it, is not as required; the message has what to do."""


def run(
    command: Sequence[str | Path],
    *,
    what: str,
    timeout_seconds: float,
    env: Mapping[str, str] | None = None,
    given: str | None = None,
) -> str:
    """Run a command and return its output; `given` is its standard input.

    `timeout_seconds` are of the patience clock.

    Raises:
        ClusterError: it failed or timed out; the message ends with its last output.
    """
    deadline = patience(timeout_seconds)
    with TemporaryFile("w+") as stdin:  # `communicate` would not go on sending after a time-out
        stdin.write(given or "")
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=env,
            )
        except FileNotFoundError as error:
            raise ClusterError(f"{what}: {command[0]} is not installed; install it") from error
    with process:
        while True:
            try:
                out, err = process.communicate(timeout=_SLICE_SECONDS)
                break
            except subprocess.TimeoutExpired as error:
                if deadline.expired:
                    process.kill()
                    raise ClusterError(f"{what}: not done after {timeout_seconds:.0f} s") from error
    if process.returncode:
        said = "\n".join((err or out).strip().splitlines()[-_SHOWN_LINES:])
        raise ClusterError(f"{what} failed ({process.returncode}):\n{said}")
    return out
