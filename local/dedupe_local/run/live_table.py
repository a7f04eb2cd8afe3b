"""Output of `dedupe run`: a live table or plain lines.

A terminal gets the live table, any other output plain lines. The rows come from `table_rows`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from dedupe_crds.formatting import count, duration, share
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import Phase
from dedupe_local.errors import OutputClosed
from dedupe_local.run.fleet_view import FleetView
from dedupe_local.run.router_rows import (
    RouterRow,
    router_changes,
    router_row,
    router_summary,
    stage_lines,
)
from dedupe_local.run.table_rows import (
    Rates,
    Row,
    added_row,
    changes,
    row,
    summary,
    total_duplicates,
    total_lag,
    without_id,
)

Clock = Callable[[], float]
"""Returns seconds and never goes backward."""

_SUMMARY_SECONDS = 5.0
_COLOURS = {Phase.RUNNING: "green", Phase.FAILED: "red", "Waiting": "red"}


class Screen(Protocol):
    """Shows the current state of the partitions; called a few times a second."""

    def show(self, fleet: FleetView) -> None: ...  # noqa: D102 # the class says it


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
        self._rates = _FleetRates()

    def show(self, fleet: FleetView) -> None:
        """Redraw the table."""
        rows, routers = self._rates.rows(fleet, self._clock())
        lines = [f"[yellow]{escape(note)}[/]" for note in fleet.notes]
        tables = [table(self._title, rows), *([router_table(routers)] if routers else [])]
        stage = map(escape, stage_lines(fleet.routers))
        self._live.update(Group(*tables, *stage, *lines), refresh=True)


class PlainLines:
    """A line per change of state and per note, and a summary every 5 s."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._rates = _FleetRates()
        self._rows: Sequence[Row] = ()
        self._routers: Sequence[RouterRow] = ()
        self._notes: Sequence[str] = ()
        self._summary_at = clock() + _SUMMARY_SECONDS

    def show(self, fleet: FleetView) -> None:
        """Print changes of state, new notes, and the summary if it is due."""
        rows, routers = self._rates.rows(fleet, self._clock())
        lines = [*router_changes(self._routers, routers), *changes(self._rows, rows)]
        lines += [f"Warning: {note}" for note in fleet.notes if note not in self._notes]
        self._notes = fleet.notes
        if (now := self._clock()) >= self._summary_at:
            self._summary_at = now + _SUMMARY_SECONDS
            stage = f", {router_summary(routers, fleet.routers)}" if routers else ""
            lines.append(f"{summary(rows)}{stage}")
        for line in lines:
            print_line(self._console, line)
        self._rows, self._routers = rows, routers


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


def router_table(rows: Sequence[RouterRow]) -> Table:
    """Build the table of all routers."""
    built = Table(title="Routers", title_justify="left")
    built.add_column("Router", justify="right")
    built.add_column("Phase")
    built.add_column("Records/s", justify="right")
    built.add_column("Lag", justify="right")
    built.add_column("Partitions", justify="right")
    built.add_column("Restarts", justify="right")
    built.add_column("", overflow="fold")
    for each in rows:
        colour = _COLOURS.get(each.phase, "yellow")
        built.add_row(
            str(each.router),
            f"[{colour}]{each.phase}[/]",
            f"{each.records_per_second:,.0f}",
            count(each.lag_messages),
            str(each.partitions),
            str(each.restarts),
            escape(each.details),
        )
    return built


class RunConsole(Console):
    """The console of a run: it raises OutputClosed once its reader has ended.

    Rich's ends silently.
    """

    def on_broken_pipe(self) -> None:
        """Raise OutputClosed, and write nothing more, up to the end of this process."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        raise OutputClosed(
            "The run ends, because the process that read its output has ended (as after `| head`). The same "
            "command continues where it was: send its output to a file, or to a reader that stays."
        )


def print_line(console: Console, line: str) -> None:
    """Print a line as it is: brackets are no markup, and it is not wrapped."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _details(each: Row) -> str:
    progress = f"{each.to_reconcile:,} to reconcile" if each.to_reconcile else ""
    return "; ".join(filter(None, (progress, each.details, without_id([each.missing_ids]))))


class _FleetRates:
    """The rows of a fleet, with their rates."""

    def __init__(self) -> None:
        self._workers, self._routers = Rates(), Rates()

    def rows(self, fleet: FleetView, now: float) -> tuple[list[Row], list[RouterRow]]:
        """Return the rows of the partitions, and those of the routers."""
        speeds = self._workers.observe({v.partition: v.consumed for v in fleet.workers}, now)
        served = [row(view, speed) for view, speed in zip(fleet.workers, speeds, strict=True)]
        added = [added_row(partition, lag) for partition, lag in sorted(fleet.added.items())]
        speeds = self._routers.observe({v.router: v.routed for v in fleet.routers}, now)
        routers = [router_row(v, speed) for v, speed in zip(fleet.routers, speeds, strict=True)]
        return [*served, *added], routers


def _title(stream: DedupeStream) -> str:
    spec = stream.spec
    return escape(
        f"{stream.shown}: {spec.input.shown} → "
        f"{spec.output.topic} on {spec.kafka.bootstrap_servers}"
    )
