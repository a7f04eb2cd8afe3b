"""Waiting for what the operator does about a request, and telling meanwhile what is missing."""

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.markup import escape

from dedupe_kubectl.errors import TimedOut
from dedupe_kubectl.objects import PAUSED, Stream

_POLL_SECONDS: Final = 1.0


def say(console: Console, line: str) -> None:
    """Print a line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def tell_if_paused(stream: Stream, console: Console) -> None:
    """Say that nothing comes of a request as long as the operator is kept off its stream."""
    if stream.paused:
        say(console, f"Paused: {PAUSED}; nothing happens until that is removed.")


def wait(console: Console, missing: Callable[[], str], timeout_seconds: float) -> None:
    """Wait until nothing is missing: on a terminal with one line that changes, elsewhere with one for each change.

    Raises:
        TimedOut: something still is, after so long.
    """
    with console.status("waiting") as shown:

        def tell(line: str) -> None:
            if console.is_terminal:
                shown.update(escape(line))
            else:
                say(console, line)

        until(missing, tell, timeout_seconds)


def until(missing: Callable[[], str], tell: Callable[[str], None], timeout_seconds: float) -> None:
    """Ask until nothing is missing, and tell what is, whenever that changes.

    Raises:
        TimedOut: something still is, after so long.
    """
    deadline, told = time.monotonic() + timeout_seconds, ""
    while what := missing():
        if time.monotonic() >= deadline:
            raise TimedOut(
                f"still waiting after {timeout_seconds:.0f} s: {what}; "
                "`kubectl dedupe describe-problem` says why"
            )
        if what != told:
            tell(what)
        told = what
        time.sleep(_POLL_SECONDS)
