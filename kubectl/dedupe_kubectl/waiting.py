"""Wait until the operator has done a request, and shows what is missing.

The commands with `--wait` call it. Invariant: it reads the time and waits only through the `Clock` it is given.
"""

from collections.abc import Callable
from typing import Final, Protocol

from rich.console import Console
from rich.markup import escape

from dedupe_crds.deadline import Deadline
from dedupe_kubectl.errors import TimedOut
from dedupe_kubectl.objects import PAUSED, Stream

_POLL_SECONDS: Final = 1.0


class Clock(Protocol):
    """The time in seconds, and the waiting; the module `time` implements it."""

    def monotonic(self) -> float: ...  # noqa: D102 # as in `time`
    def sleep(self, seconds: float, /) -> object: ...  # noqa: D102 # as in `time`


def print_line(console: Console, line: str) -> None:
    """Print a line without markup, colours or folding."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def warn_if_paused(stream: Stream, console: Console) -> None:
    """Warn that the operator does not act on a request while reconciliation is paused."""
    if stream.paused:
        print_line(console, f"Paused: {PAUSED}; nothing happens until that is removed.")


def wait_until_done(
    console: Console, missing: Callable[[], str], timeout_seconds: float, clock: Clock
) -> None:
    """Wait until nothing is missing, and show what is.

    A terminal shows it in one line that changes; elsewhere each change is a line.

    Raises:
        TimedOut: something is missing after `timeout_seconds`.
    """
    with console.status("waiting") as shown:

        def report(line: str) -> None:
            if console.is_terminal:
                shown.update(escape(line))
            else:
                print_line(console, line)

        poll(missing, report, timeout_seconds, clock)


def poll(
    missing: Callable[[], str], report: Callable[[str], None], timeout_seconds: float, clock: Clock
) -> None:
    """Call `missing` until it returns an empty text; report each new text.

    Raises:
        TimedOut: something is missing after `timeout_seconds`.
    """
    deadline = Deadline(timeout_seconds, clock=clock.monotonic, wait=clock.sleep)
    reported = ""
    while what := missing():
        if deadline.expired:
            raise TimedOut(
                f"still waiting after {timeout_seconds:.0f} s: {what}; "
                "`kubectl dedupe describe-problem` shows why"
            )
        if what != reported:
            report(what)
        reported = what
        deadline.pause(_POLL_SECONDS)
