"""A command reports its progress in the way that its user asked for."""

import io
import re
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from dedupe_pipeline.report.report import PLAIN_SECONDS, Report, Step, report_options


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def output(work: Callable[[Report, Clock], None], *, terminal: bool, quiet: bool = False) -> str:
    """What is on stderr after some work."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    clock = Clock()
    with Report(quiet=quiet, console=console, clock=clock) as report:
        work(report, clock)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def some_steps(report: Report, clock: Clock) -> None:
    for done in range(0, 60, 10):
        report.step(Step(action="reading", done=done, total=100, details=f"{done} records"))
        clock.now += PLAIN_SECONDS / 2
    report.line("batch", "batch 1: [50] records", records=50)
    report.warn("beware")


def test_a_file_gets_a_line_now_and_then() -> None:
    lines = output(some_steps, terminal=False).splitlines()

    assert [re.sub(", [^,]* left", "", line) for line in lines] == [
        "reading: 20 %, 20 records",
        "reading: 40 %, 40 records",
        "batch 1: [50] records",
        "warning: beware",
    ]


def test_a_terminal_gets_a_bar_and_the_lines() -> None:
    shown = output(some_steps, terminal=True)

    assert "━" in shown
    assert "batch 1: [50] records" in shown
    assert "reading: 20 %" not in shown


@pytest.mark.parametrize("terminal", [False, True])
def test_a_quiet_command_prints_warnings_only(terminal: bool) -> None:
    assert output(some_steps, terminal=terminal, quiet=True) == "warning: beware\n"


def test_a_step_without_a_total_has_no_share() -> None:
    def unknown(report: Report, clock: Clock) -> None:
        report.step(Step(action="first", done=1, total=2))
        clock.now += PLAIN_SECONDS
        report.step(Step(action="second", details="5 records"))

    assert output(unknown, terminal=False) == "second: 5 records\n"


@click.command()
@report_options
@click.option("--name")
def greet(*, name: str, report: Report) -> None:
    """Greet."""
    report.line("greeting", "about to greet")
    report.result(f"Hello {name}", name=name)


def test_the_result_is_on_stdout() -> None:
    done = CliRunner().invoke(greet, ["--name", "Ann"])

    assert (done.stdout, done.stderr) == ("Hello Ann\n", "about to greet\n")
