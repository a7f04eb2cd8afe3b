"""What can go wrong around the cluster, and how its commands are run."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_SHOWN_LINES = 20


class ClusterError(Exception):
    """The cluster, or something in it, is not as it must be; the message says what to do."""


def run(
    command: Sequence[str | Path],
    *,
    what: str,
    timeout_seconds: float,
    env: Mapping[str, str] | None = None,
    given: str | None = None,
) -> str:
    """Run a command and return what it printed; `given` goes to its standard input.

    Raises:
        ClusterError: it failed, or took too long; the message ends with what it said.
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
        raise ClusterError(f"{what}: there is no {command[0]} here; install it") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{what}: not done after {timeout_seconds:.0f} s") from error
    except subprocess.CalledProcessError as error:
        said = "\n".join((error.stderr or error.stdout).strip().splitlines()[-_SHOWN_LINES:])
        raise ClusterError(f"{what} failed ({error.returncode}):\n{said}") from error
    return done.stdout
