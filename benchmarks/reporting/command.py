"""Frame of every benchmark's command: options, broker, and use of the result."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from confluent_kafka import KafkaException
from rich.console import Console

from benchmarks.harness.machine import describe_machine
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import SendFailed
from benchmarks.reporting.plots import plot
from benchmarks.reporting.render import PAGE, Measured, Part, Result, save, show, write_pages

SHOWN: Final = ("peers", "recovery")
"""Results whose plots docs/performance.md shows."""

_OUTPUT: Final = Path("build/performance")
_WIDTH: Final = 160  # of output that goes to no terminal

console: Final = Console()
if not console.is_terminal:
    console.width = _WIDTH

output_option = click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_OUTPUT,
    help="Directory of results and plots; during the run also of the broker's data.",
)
messages_option = click.option(
    "--messages", type=click.IntRange(min=100_000), default=1_000_000, help="Size of a run."
)
rounds_option = click.option(
    "--rounds", type=click.IntRange(min=1), default=3, help="Repetitions of each run."
)
page_option = click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    default=PAGE,
    show_default="docs/performance.md",
    help="Page whose results are replaced, and those of the page of details next to it.",
)


@contextmanager
def failures_shown() -> Iterator[None]:
    """End the command with the message of a benchmark that failed."""
    try:
        yield
    except (BenchmarkFailed, KafkaException, SendFailed) as failed:
        raise click.ClickException(str(failed)) from failed


@contextmanager
def scratch_testbed(output: Path) -> Iterator[Testbed]:
    """Provide a new broker and a directory below `output`; remove both afterwards."""
    output.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=output, prefix="scratch-") as scratch,
        Testbed(Path(scratch).absolute()) as testbed,
    ):
        yield testbed


class Recorder:
    """Keeps results with the machine as it was before they were measured."""

    def __init__(self, output: Path) -> None:
        self._machine = describe_machine()
        self._output = output

    def save(self, result: Result, *, shown: bool = True) -> None:
        """Write a result as JSON and as a plot, and print it if `shown`."""
        measured = Measured(machine=self._machine, result=result)
        name = save(measured, self._output)
        plot(result, self._output / f"{name}.svg")
        if shown:
            show(console, measured)


def update_pages(parts: Iterable[Part], output: Path, page: Path) -> None:
    """Replace parts of both pages, and their plots, by the results in `output`."""
    for part in parts:
        for name, measured in write_pages(part, output, page).items():
            if name in SHOWN:
                plot(measured.result, page.parent / "performance" / f"{name}.svg")
    console.print(f"Results and plots in {output}; {page} is updated.")
