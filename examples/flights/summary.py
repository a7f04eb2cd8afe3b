"""The end of the demo: the answers and the figures, all taken from what was measured."""

import os
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from examples.flights.outcome import Answer, Outcome


def show(outcome: Outcome, page: Path, console: Console) -> None:
    """Print the answers and the summary; `page` is where the audit's plots are."""
    console.print()
    console.print(_answers(outcome.clean_answer, outcome.raw_answer))
    console.print()
    console.print(Group(_verdict(outcome), _figures(outcome, page)))


def _answers(clean: Answer, raw: Answer) -> Table:
    question = "On which day of 2013 did most flights leave New York?"
    table = Table(
        title=question, title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    table.add_column("", style="dim")
    table.add_column("clean topic", justify="right", style="green")
    table.add_column("raw topic, with its repeats", justify="right", style="yellow")
    for name, shown in (
        ("busiest day", lambda answer: answer.busiest_day),
        ("flights that day", lambda answer: f"{answer.flights_that_day:,}"),
        ("their median delay", lambda answer: f"{answer.median_delay_minutes:+.0f} min"),
        ("flights in all", lambda answer: f"{answer.flights_in_all:,}"),
    ):
        table.add_row(name, shown(clean), shown(raw))
    return table


def _verdict(outcome: Outcome) -> Text:
    if problems := outcome.problems():
        return Text("\n".join(["Not as promised:", *problems]), style="bold red")
    return Text("Each message exactly once, byte for byte, in order", style="bold green")


def _figures(outcome: Outcome, page: Path) -> Table:
    sent, found, recovery = outcome.sent, outcome.audit.total, outcome.recovery
    done = outcome.deduplicated
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in (
        (
            "in",
            f"{found.raw_records:,} records = {sent.first:,} flights + {sent.retries:,} retries "
            f"+ {sent.replays:,} replays",
        ),
        ("out", f"{found.clean_records:,} records"),
        ("removed", f"{found.removed:,} duplicates"),
        ("lost", f"{found.lost:,}"),
        ("twice", f"{found.duplicated:,}"),
        ("altered", f"{found.altered:,}"),
        ("out of order", f"{found.reordered:,}"),
        (
            "rates",
            f"sent {sent.records / sent.seconds:,.0f}/s, deduplicated "
            f"{done.records / done.seconds:,.0f}/s, together on {os.cpu_count()} cores",
        ),
        (
            "recovery",
            f"ready {recovery.ready_seconds:.1f} s after SIGKILL, its next record out after "
            f"{recovery.output_seconds:.1f} s",
        ),
        ("took", f"{outcome.seconds:.0f} s"),
        ("plots", str(page)),
    ):
        table.add_row(name, Text(text))
    return table
