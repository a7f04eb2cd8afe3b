"""What to do when a worker has ended. Decisions only: values in, values out."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from signal import Signals

from dedupe_crds.status.worker import ExitCode

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 60.0

_DOUBLINGS = 5  # from the first wait to the longest


@dataclass(frozen=True)
class StartAgain:
    """Start the worker again after a wait; `failures` counts those in a row, this one included."""

    wait_seconds: float
    failures: int


@dataclass(frozen=True)
class GiveUp:
    """Starting the same worker again would end the same way, or take over from a rightful one."""


def after_exit(
    code: int, *, ready_seconds: float, failures: int, jitter: float
) -> StartAgain | GiveUp:
    """Decide about a worker that ended with exit `code` (negative: minus a signal's number).

    `ready_seconds` is how long it had been ready, `failures` how often it had failed in a row
    before. Waits double from 1 s to 30 s and begin anew after a minute of being ready. `jitter`, a
    random number from 0 to 1, takes up to half of the wait away, so that workers that failed
    together do not come back together.
    """
    if code in list(ExitCode) and ExitCode(code).is_final:
        return GiveUp()
    if ready_seconds >= HEALTHY_AFTER_SECONDS:
        failures = 0
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(failures, _DOUBLINGS))
    return StartAgain(wait_seconds=longest * (1 - jitter / 2), failures=failures + 1)


def describe_exit(code: int) -> str:
    """Say how a process ended.

    >>> describe_exit(-9), describe_exit(66), describe_exit(3)
    ('was killed by SIGKILL', 'ended with exit code 66 (FENCED)', 'ended with exit code 3')
    """
    if code < 0:
        return f"was killed by {Signals(-code).name}"
    name = f" ({ExitCode(code).name})" if code in list(ExitCode) else ""
    return f"ended with exit code {code}{name}"


def last_error(log_lines: Sequence[str]) -> str | None:
    """Return the last error of a worker's log: of its JSON lines, or else the last line of all."""
    for line in reversed(log_lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("level") in {"error", "critical"}:
            told = [entry.get("reason"), entry.get("error") or entry.get("event")]
            return ": ".join(str(part) for part in told if part)
    return next((line.strip() for line in reversed(log_lines) if line.strip()), None)
