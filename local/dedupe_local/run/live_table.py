"""What a user sees of a running fleet: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import Phase
from dedupe_local.run.table_rows import (
    Rates,
    Row,
    changes,
    row,
    share,
    short,
    summary,
    total_duplicates,
    total_lag,
)
from dedupe_local.run.worker_process import WorkerView

_SUMMARY_SECONDS = 5.0
_COLOURS = {Phase.RUNNING: "green", Phase.FAILED: "red", "Waiting": "red"}


class Screen(Protocol):
    """Shows the partitions as they are now; to be called a few times a second."""

    def show(self, views: Sequence[WorkerView]) -> None: ...  # noqa: D102 # the class says it


@contextmanager
def screen(console: Console, stream: DedupeStream) -> Iterator[Screen]:
    """Yield what suits the console."""
    if not console.is_terminal:
        yield PlainLines(console)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield LiveTable(live, _title(stream))


class LiveTable:
    """One table that is drawn anew."""

    def __init__(self, live: Live, title: str) -> None:
        self._live = live
        self._title = title
        self._rates = Rates()

    def show(self, views: Sequence[WorkerView]) -> None:
        """Draw the table."""
        rows = _rows(self._rates, views)
        self._live.update(table(self._title, rows), refresh=True)


class PlainLines:
    """A line for each change of state, and a summary every 5 s."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rates = Rates()
        self._rows: Sequence[Row] = ()
        self._summary_at = time.monotonic() + _SUMMARY_SECONDS

    def show(self, views: Sequence[WorkerView]) -> None:
        """Print what is new."""
        rows = _rows(self._rates, views)
        lines = changes(self._rows, rows)
        if time.monotonic() >= self._summary_at:
            self._summary_at = time.monotonic() + _SUMMARY_SECONDS
            lines.append(summary(rows))
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._rows = rows


def table(title: str, rows: Sequence[Row]) -> Table:
    """Build the table of all partitions, and their total if there are several."""
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
            short(each.window_seconds),
            str(each.restarts),
            escape(_remark(each)),
        )
    return built


def _remark(each: Row) -> str:
    progress = f"{each.to_reconcile:,} to reconcile" if each.to_reconcile else ""
    return "; ".join(filter(None, (progress, each.note)))


def _rows(rates: Rates, views: Sequence[WorkerView]) -> list[Row]:
    speeds = rates.observe(views, time.monotonic())
    return [row(view, speed) for view, speed in zip(views, speeds, strict=True)]


def _title(stream: DedupeStream) -> str:
    spec = stream.spec
    return escape(
        f"{stream.metadata.namespace}/{stream.metadata.name}: {spec.input.topic} → "
        f"{spec.output.topic} on {spec.kafka.bootstrap_servers}"
    )
