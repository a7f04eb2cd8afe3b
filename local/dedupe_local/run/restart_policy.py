"""Restart policy: whether and when to restart a worker that has ended.

`worker_process` calls it. Pure functions: no clock, no I/O.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from signal import Signals

from dedupe_crds.status.exit_code import ExitCode

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 60.0

_DOUBLINGS = 5  # from the first wait to the longest


@dataclass(frozen=True)
class Restart:
    """Restart the worker after a wait.

    `failures` counts failures in a row, including this one.
    """

    wait_seconds: float
    failures: int


@dataclass(frozen=True)
class NoRestart:
    """Do not restart: it would fail again, or would fence a newer worker."""


def after_exit(
    code: int, *, ready_seconds: float, failures: int, jitter: float
) -> Restart | NoRestart:
    """Decide whether to restart a worker that ended with an exit code.

    A negative `code` is minus a signal's number. `ready_seconds` is how long the worker was ready, `failures` how often
    it had failed in a row before. The wait doubles from 1 s to 30 s, and is 1 s again after a worker was ready for a
    minute. `jitter`, a random number from 0 to 1, shortens the wait by up to half, so that workers that failed together
    do not restart together.
    """
    if code in list(ExitCode) and ExitCode(code).is_final:
        return NoRestart()
    if ready_seconds >= HEALTHY_AFTER_SECONDS:
        failures = 0
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(failures, _DOUBLINGS))
    return Restart(wait_seconds=longest * (1 - jitter / 2), failures=failures + 1)


def describe_exit(code: int) -> str:
    """Describe how a process ended.

    >>> describe_exit(-9), describe_exit(66), describe_exit(3)
    ('was killed by SIGKILL', 'ended with exit code 66 (FENCED)', 'ended with exit code 3')
    """
    if code < 0:
        return f"was killed by {_signal_name(-code)}"
    name = f" ({ExitCode(code).name})" if code in list(ExitCode) else ""
    return f"ended with exit code {code}{name}"


def _signal_name(number: int) -> str:
    if number in list(Signals):
        return Signals(number).name
    # Python names only the first and the last real-time signal.
    if Signals.SIGRTMIN < number < Signals.SIGRTMAX:
        return f"SIGRTMIN+{number - Signals.SIGRTMIN}"
    return f"signal {number}"


def last_error(log_lines: Sequence[str]) -> str | None:
    """Return the last error among a log's JSON lines, or else its last line."""
    for line in reversed(log_lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("level") in {"error", "critical"}:
            parts = [entry.get("reason"), entry.get("error") or entry.get("event")]
            return ": ".join(str(part) for part in parts if part)
    return next((line.strip() for line in reversed(log_lines) if line.strip()), None)
