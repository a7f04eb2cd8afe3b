"""The command line of the demo: `make demo` runs `python -m examples.flights`.

Exit codes: 0 the demo showed what it is meant to show, 1 it did not, 2 it could not run, 130 interrupted. It is meant
to show that each message is delivered exactly once; with `--scattered`, that as many duplicates pass as were sent to
other partitions, and nothing else is wrong; with `--scattered --repartition`, that routers prevent that.
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
    help="Average number of duplicates that the producer sends for each flight.",
)
@click.option(
    "--seed",
    type=int,
    default=2013,
    show_default=True,
    help="Seed of the ids and of the duplicates.",
)
@click.option(
    "--scattered",
    is_flag=True,
    help="Send without keys, so that duplicates are in different partitions and pass; not with --filter, --postgres.",
)
@click.option(
    "--repartition",
    is_flag=True,
    help="With --scattered: let routers send each record to the partition of its id, so that none passes twice.",
)
@click.option(
    "--filter",
    "carrier",
    metavar="CARRIER",
    help="Also read the flights of one carrier, such as AA, with chunk filters of the clean topic.",
)
@click.option(
    "--postgres",
    metavar="[URL]",
    is_flag=False,
    flag_value=_OWN_POSTGRES,
    help="Also count in PostgreSQL, and kill that job. Without a URL, the demo starts a PostgreSQL.",
)
@click.option("--keep", is_flag=True, help="Keep the topics, the stores and the Parquet files.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_RESULTS,
    help="Directory for the HTML pages and the JSON results.  [default: build/demo]",
)
def main(
    *,
    rows: int,
    partitions: int,
    repeats: float,
    seed: int,
    scattered: bool,
    repartition: bool,
    carrier: str | None,
    postgres: str | None,
    keep: bool,
    output: Path,
) -> None:
    """Deduplicate real flights, kill a worker, and read the result with Spark."""
    console = Console()
    if scattered:
        _check_scattered(partitions, repeats, alone=carrier is None and postgres is None)
    elif repartition:
        raise click.UsageError("--repartition is for --scattered: add that option")
    options = Options(
        rows=rows,
        partitions=partitions,
        repeats=repeats,
        seed=seed,
        scattered=scattered,
        repartition=repartition,
        carrier=carrier,
        counts=postgres is not None,
        postgres_url=None if postgres == _OWN_POSTGRES else postgres,
    )
    _interrupt_once(console)
    with _errors_as_exit_codes():
        output.mkdir(parents=True, exist_ok=True)
        find_java()
        kafka_broker(), spark_kafka()  # the first run downloads them, with its own progress display
        with _directory(keep, console) as directory:
            with Screen(console) as screen:
                outcome = run(options, directory, screen)
            show(outcome, _write_results(outcome, output), console)
    sys.exit(_NOT_AS_PROMISED if outcome.problems() else 0)


def _check_scattered(partitions: int, repeats: float, *, alone: bool) -> None:
    if not alone:
        raise click.UsageError(
            "--scattered shows duplicates in the clean topic, with which --filter and --postgres would show wrong "
            "results: choose one of these options"
        )
    if partitions == 1 or not repeats:
        raise click.UsageError(
            "--scattered needs duplicates and partitions to send them to: set --duplicates above 0 and --partitions "
            "above 1"
        )


def _write_results(outcome: Outcome, output: Path) -> Path:
    """Write the pages and the JSON results, and return the path of the main page."""
    (output / "demo.json").write_text(outcome.to_json(), encoding="utf-8")
    (output / "audit.html").write_text(report.html_page(outcome.audit), encoding="utf-8")
    page = output / "index.html"
    page.write_text(html_page(outcome), encoding="utf-8")
    return page


@contextmanager
def _directory(keep: bool, console: Console) -> Iterator[Path]:
    """Create a working directory for the block; remove it, or print how to use it."""
    directory = Path(tempfile.mkdtemp(prefix="dedupestream-demo-"))
    try:
        yield directory
    finally:
        if keep:
            _print_how_to_continue(directory, console)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _print_how_to_continue(directory: Path, console: Console) -> None:
    state = directory / "state"
    for line in (
        f"\nKept in {directory}: the broker's topics, the stores and logs, flights.parquet.",
        "Start the broker and the workers again with",
        f"  .venv/bin/dedupe run {state / 'manifest.yaml'} --embedded --state-dir {state}",
        "and, while they run, audit the topics in another terminal with",
        f"  .venv/bin/dedupe-pipeline audit {state / 'manifest.yaml'}",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _interrupt_once(console: Console) -> None:
    """Raise KeyboardInterrupt on the first SIGINT or SIGTERM, and ignore the next.

    A second Ctrl-C must not interrupt the cleanup.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        console.print("Stopping everything …")
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


@contextmanager
def _errors_as_exit_codes() -> Iterator[None]:
    """Print an expected error as one line, and exit with its code."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted; all processes were stopped.", err=True)
        sys.exit(_INTERRUPTED)
    except (
        *(StreamError, OSError),
        *(data.FlightsMissing, NotSent, NotRecovered, NotCounted),
    ) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_COULD_NOT_RUN)


if __name__ == "__main__":
    main(prog_name="python -m examples.flights")
