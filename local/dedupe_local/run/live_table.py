"""Output of the commands: a live table or plain lines, and a progress bar.

A terminal gets the live table, any other output plain lines. The rows come from `table_rows`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from dedupe_crds.formatting import duration, share
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import Phase
from dedupe_local.run.table_rows import (
    Rates,
    Row,
    added_row,
    changes,
    row,
    summary,
    total_duplicates,
    total_lag,
)
from dedupe_local.run.worker_process import WorkerView

Clock = Callable[[], float]
"""Returns seconds and never goes backward."""

_SUMMARY_SECONDS = 5.0
_COLOURS = {Phase.RUNNING: "green", Phase.FAILED: "red", "Waiting": "red"}


class Screen(Protocol):
    """Shows the current state of the partitions; called a few times a second.

    `added` are partitions without a worker, each with its lag; `notes` are sentences about the topics.
    """

    def show(  # noqa: D102 # the class says it
        self, views: Sequence[WorkerView], added: Mapping[int, int], notes: Sequence[str]
    ) -> None: ...


@contextmanager
def screen(
    console: Console, stream: DedupeStream, *, clock: Clock = time.monotonic
) -> Iterator[Screen]:
    """Yield a live table on a terminal, else plain lines."""
    if not console.is_terminal:
        yield PlainLines(console, clock)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield LiveTable(live, _title(stream), clock)


class LiveTable:
    """A table that is redrawn in place."""

    def __init__(self, live: Live, title: str, clock: Clock) -> None:
        self._live = live
        self._title = title
        self._clock = clock
        self._rates = Rates()

    def show(
        self, views: Sequence[WorkerView], added: Mapping[int, int], notes: Sequence[str]
    ) -> None:
        """Redraw the table."""
        rows = _rows(self._rates, views, added, self._clock())
        lines = [f"[yellow]{escape(note)}[/]" for note in notes]
        self._live.update(Group(table(self._title, rows), *lines), refresh=True)


class PlainLines:
    """A line per change of state and per note, and a summary every 5 s."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._rates = Rates()
        self._rows: Sequence[Row] = ()
        self._notes: Sequence[str] = ()
        self._summary_at = clock() + _SUMMARY_SECONDS

    def show(
        self, views: Sequence[WorkerView], added: Mapping[int, int], notes: Sequence[str]
    ) -> None:
        """Print changes of state, new notes, and the summary if it is due."""
        rows = _rows(self._rates, views, added, self._clock())
        lines = changes(self._rows, rows)
        lines += [f"Warning: {note}" for note in notes if note not in self._notes]
        self._notes = notes
        if (now := self._clock()) >= self._summary_at:
            self._summary_at = now + _SUMMARY_SECONDS
            lines.append(summary(rows))
        for line in lines:
            print_line(self._console, line)
        self._rows = rows


def table(title: str, rows: Sequence[Row]) -> Table:
    """Build the table of all partitions, with a total if there are several."""
    built = Table(title=title, title_justify="left", show_footer=len(rows) > 1)
    rate = sum(row.records_per_second for row in rows)
    built.add_column("Partition", "total", justify="right")
    built.add_column("Phase", "")
    built.add_column("Records/s", f"{rate:,.0f}", justify="right")
    built.add_column("Duplicates", total_duplicates(rows), justify="right")
    built.add_column("Lag", total_lag(rows), justify="right")
    built.add_column("Window", "", justify="right")
    built.add_column("Restarts", f"{sum(row.restarts for row in rows)}", justify="right")
    built.add_column("", "", overflow="fold")
    for each in rows:
        colour = _COLOURS.get(each.phase, "yellow")
        built.add_row(
            str(each.partition),
            f"[{colour}]{each.phase}[/]",
            f"{each.records_per_second:,.0f}",
            share(each.duplicates, each.consumed),
            "-" if each.lag_messages is None else f"{each.lag_messages:,}",
            duration(each.window_seconds),
            str(each.restarts),
            escape(_details(each)),
        )
    return built


def progress_bar(console: Console) -> Progress:
    """Return a bar with the share done and the time left.

    It shows on a terminal only, and disappears at the end.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def print_line(console: Console, line: str) -> None:
    """Print a line as it is: brackets are no markup, and it is not wrapped."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _details(each: Row) -> str:
    progress = f"{each.to_reconcile:,} to reconcile" if each.to_reconcile else ""
    return "; ".join(filter(None, (progress, each.details)))


def _rows(
    rates: Rates, views: Sequence[WorkerView], added: Mapping[int, int], now: float
) -> list[Row]:
    speeds = rates.observe(views, now)
    served = [row(view, speed) for view, speed in zip(views, speeds, strict=True)]
    return [*served, *(added_row(partition, lag) for partition, lag in sorted(added.items()))]


def _title(stream: DedupeStream) -> str:
    spec = stream.spec
    return escape(
        f"{stream.shown}: {spec.input.shown} → "
        f"{spec.output.topic} on {spec.kafka.bootstrap_servers}"
    )
