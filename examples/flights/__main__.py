"""`python -m examples.flights`: the command behind `make demo`.

Exit codes: 0 each message came out exactly once, 1 it did not, 2 it could not run, 130 interrupted.
"""

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
from rich.console import Console

from dedupe_kafka.errors import StreamError
from dedupe_local.errors import LocalError
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.audit import report
from dedupe_pipeline.runtime.jars import kafka_broker, spark_kafka
from dedupe_pipeline.runtime.java import find_java
from examples.flights import data
from examples.flights.counting import NotCounted
from examples.flights.demo import Options, run
from examples.flights.outcome import Outcome
from examples.flights.page import html_page
from examples.flights.producer import NotSent
from examples.flights.recovery import NotRecovered
from examples.flights.screen import Screen
from examples.flights.summary import show

_RESULTS = Path(__file__).parents[2] / "build" / "demo"
_OWN_POSTGRES = "its own"
_NOT_AS_PROMISED, _COULD_NOT_RUN, _INTERRUPTED = 1, 2, 130


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--rows",
    type=click.IntRange(1_000, data.ROWS),
    default=data.ROWS,
    show_default=True,
    help="Flights to send.",
)
@click.option("--partitions", type=click.IntRange(1, 16), default=4, show_default=True)
@click.option(
    "--duplicates",
    "repeats",
    metavar="RATE",
    type=click.FloatRange(0, 0.5),
    default=0.05,
    show_default=True,
    help="How many repeats the producer sends for each flight, on average.",
)
@click.option("--seed", type=int, default=2013, show_default=True, help="Of ids and repeats.")
@click.option(
    "--filter",
    "carrier",
    metavar="CARRIER",
    help="Read the flights of one carrier, such as AA, by skipping chunks of the clean topic.",
)
@click.option(
    "--postgres",
    metavar="[URL]",
    is_flag=False,
    flag_value=_OWN_POSTGRES,
    help="Count in PostgreSQL too, and kill that job; without a URL, one is started for it.",
)
@click.option("--keep", is_flag=True, help="Keep the topics, the stores and the Parquet files.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_RESULTS,
    help="Where the pages with plots and the figures as JSON are left.  [default: build/demo]",
)
def main(
    *,
    rows: int,
    partitions: int,
    repeats: float,
    seed: int,
    carrier: str | None,
    postgres: str | None,
    keep: bool,
    output: Path,
) -> None:
    """Deduplicate real flights, kill a worker in the middle, and read the result with Spark."""
    console = Console()
    options = Options(
        rows=rows,
        partitions=partitions,
        repeats=repeats,
        seed=seed,
        carrier=carrier,
        counts=postgres is not None,
        postgres_url=None if postgres == _OWN_POSTGRES else postgres,
    )
    _interrupt_once(console)
    with _told():
        output.mkdir(parents=True, exist_ok=True)
        find_java()
        kafka_broker(), spark_kafka()  # a first run downloads them, with a display of its own
        with _directory(keep, console) as directory:
            with Screen(console) as screen:
                outcome = run(options, directory, screen)
            show(outcome, _leave(outcome, output), console)
    sys.exit(_NOT_AS_PROMISED if outcome.problems() else 0)


def _leave(outcome: Outcome, output: Path) -> Path:
    """Write what stays, and return the page."""
    (output / "demo.json").write_text(outcome.to_json(), encoding="utf-8")
    (output / "audit.html").write_text(report.html_page(outcome.audit), encoding="utf-8")
    page = output / "index.html"
    page.write_text(html_page(outcome), encoding="utf-8")
    return page


@contextmanager
def _directory(keep: bool, console: Console) -> Iterator[Path]:
    """A working directory that is gone at the end, or else told about."""
    directory = Path(tempfile.mkdtemp(prefix="dedupestream-demo-"))
    try:
        yield directory
    finally:
        if keep:
            _tell_how_to_look(directory, console)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _tell_how_to_look(directory: Path, console: Console) -> None:
    state = directory / "state"
    for line in (
        f"\nKept in {directory}: the broker's topics, the stores and logs, flights.parquet.",
        "Start the broker and the workers on them again with",
        f"  .venv/bin/dedupe run {state / 'manifest.yaml'} --state-dir {state}",
        "and, while they run, audit it in another terminal with",
        f"  .venv/bin/dedupe-pipeline audit {state / 'manifest.yaml'}",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _interrupt_once(console: Console) -> None:
    """Make one exception of SIGINT and SIGTERM; whoever is impatient must not cut the cleaning short."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        console.print("Stopping everything …")
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


@contextmanager
def _told() -> Iterator[None]:
    """Tell what went wrong in a sentence, with the exit code for it."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted; nothing is left running.", err=True)
        sys.exit(_INTERRUPTED)
    except (
        *(LocalError, PipelineError, StreamError, OSError),
        *(data.FlightsMissing, NotSent, NotRecovered, NotCounted),
    ) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_COULD_NOT_RUN)


if __name__ == "__main__":
    main(prog_name="python -m examples.flights")
