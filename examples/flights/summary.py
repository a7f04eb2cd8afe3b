"""The summary at the end of the demo: answers and measurements."""

import os
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dedupe_pipeline.jobs.audit.result import PartitionAudit
from examples.flights.outcome import Outcome
from examples.flights.sheets import Sheet, counted, question, reads, scattered


def show(outcome: Outcome, page: Path, console: Console) -> None:
    """Print the answers and the summary; `page` is the path of the HTML page."""
    for sheet in tables(outcome):
        console.print()
        console.print(_shown(sheet))
    console.print()
    console.print(Group(_verdict(outcome), _grid([*figures(outcome), ("plots", str(page))])))


def tables(outcome: Outcome) -> list[Sheet]:
    """Return the tables of the run."""
    sheets = [question(outcome)]
    if outcome.scattered:
        sheets.append(scattered(outcome))
    if outcome.skipping:
        sheets.append(reads(outcome.skipping))
    if outcome.counting:
        sheets.append(counted(outcome.counting))
    return sheets


def verdict(outcome: Outcome) -> str:
    """Return the verdict on a run without problems."""
    if outcome.shows_passing:
        return (
            f"Not exactly once, as this run is meant to show: {outcome.audit.total.duplicated:,} duplicates passed, "
            "because their producer sent no keys, so that they are in other partitions than their originals"
        )
    if outcome.routed:
        return (
            "Each message exactly once, byte for byte, although its copies were sent to different partitions: routers "
            "have brought them together"
        )
    return "Each message exactly once, byte for byte, in order"


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
        ("duplicated", _duplicated(found)),
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


def _duplicated(found: PartitionAudit) -> str:
    across = found.duplicated_in_another_partition
    if not across:
        return f"{found.duplicated:,}"
    return f"{found.duplicated:,}, of which {across:,} have their other copy in another partition"


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
    return Text(verdict(outcome), style="bold yellow" if outcome.shows_passing else "bold green")


def _grid(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in rows:
        table.add_row(name, Text(text))
    return table
