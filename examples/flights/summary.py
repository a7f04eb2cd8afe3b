"""The summary at the end of the demo: answers and measurements."""

import os
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from examples.flights.outcome import Outcome
from examples.flights.sheets import Sheet, counted, question, reads


def show(outcome: Outcome, page: Path, console: Console) -> None:
    """Print the answers and the summary; `page` is the path of the HTML page."""
    sheets = [question(outcome)]
    if outcome.skipping:
        sheets.append(reads(outcome.skipping))
    if outcome.counting:
        sheets.append(counted(outcome.counting))
    for sheet in sheets:
        console.print()
        console.print(_shown(sheet))
    console.print()
    console.print(Group(_verdict(outcome), _grid([*figures(outcome), ("plots", str(page))])))


def figures(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the measurements, by name."""
    sent, found, recovery = outcome.sent, outcome.audit.total, outcome.recovery
    done = outcome.deduplicated
    rows = [
        (
            "in",
            f"{found.raw_records:,} records = {sent.first:,} flights + {sent.retries:,} retries "
            f"+ {sent.replays:,} replays",
        ),
        ("out", f"{found.clean_records:,} records"),
        ("removed", f"{found.removed:,} duplicates, each kept with a reference to its original"),
        ("lost", f"{found.lost:,}"),
        ("duplicated", f"{found.duplicated:,}"),
        ("altered", f"{found.altered:,}"),
        ("out of order", f"{found.reordered:,}"),
        (
            "rates",
            f"sent {sent.records / sent.seconds:,.0f}/s, deduplicated "
            f"{done.records / done.seconds:,.0f}/s, both on {os.cpu_count()} cores",
        ),
        (
            "recovery",
            f"ready {recovery.ready_seconds:.1f} s after SIGKILL, next output record after "
            f"{recovery.output_seconds:.1f} s",
        ),
    ]
    return [*rows, ("took", f"{outcome.seconds:.0f} s")]


def _shown(sheet: Sheet) -> RenderableType:
    table = Table(
        title=sheet.title, title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for number, name in enumerate(sheet.columns):
        colour = sheet.colours[number] if sheet.colours else ""
        table.add_column(name, justify="right" if number else "left", style=colour)
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    return Group(table, *(Text(line, style="dim") for line in sheet.notes))


def _verdict(outcome: Outcome) -> Text:
    if problems := outcome.problems():
        return Text("\n".join(["Not exactly once:", *problems]), style="bold red")
    return Text("Each message exactly once, byte for byte, in order", style="bold green")


def _grid(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in rows:
        table.add_row(name, Text(text))
    return table
