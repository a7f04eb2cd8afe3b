"""The error of the cluster tools, and a function to run commands."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_SHOWN_LINES = 20


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

    Raises:
        ClusterError: it failed or timed out; the message ends with its last output.
    """
    try:
        done = subprocess.run(
            [str(part) for part in command],
            check=True,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            env=env,
            input=given,
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{what}: {command[0]} is not installed; install it") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{what}: not done after {timeout_seconds:.0f} s") from error
    except subprocess.CalledProcessError as error:
        said = "\n".join((error.stderr or error.stdout).strip().splitlines()[-_SHOWN_LINES:])
        raise ClusterError(f"{what} failed ({error.returncode}):\n{said}") from error
    return done.stdout
