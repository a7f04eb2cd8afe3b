"""`python -m benchmarks`: measure, print, keep; see docs/performance.md for what the figures mean."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import click
from confluent_kafka import KafkaException
from rich.console import Console

from benchmarks.cases.ageing import measure_ageing
from benchmarks.cases.aggregate import measure_aggregate
from benchmarks.cases.cores import measure_cores
from benchmarks.cases.extras import measure_extras
from benchmarks.cases.filters import measure_filters
from benchmarks.cases.inverse_bloom import measure_inverse_bloom
from benchmarks.cases.latency import measure_latency
from benchmarks.cases.memory import measure_memory
from benchmarks.cases.reconcile import measure_reconcile
from benchmarks.cases.throughput import measure_throughput
from benchmarks.harness.machine import describe_machine
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.testbed import Testbed
from benchmarks.recovery.local import measure_recovery
from benchmarks.report import Result, show
from benchmarks.reporting.render import (
    PAGE,
    PEERS,
    PIPELINE,
    RECOVERY,
    SCALE,
    WORKER,
    Measured,
    save,
    write_page,
)

_OUTPUT: Final = Path("build/bench")
_RATE: Final = 10_000
_AGEING: Final = 2  # times `--messages`, so that several generations are dropped
_KEYS: Final = 10  # as many times `--messages`, in the benchmark of memory
_SIZES: Final = (1_000_000, 10_000_000)  # ids, in the benchmark of recovery
_BACKLOGS: Final = (0.1, 2.0)  # times `--messages`

_console = Console()
if not _console.is_terminal:
    _console.width = 120

_output = click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_OUTPUT,
    help="Where the results go, and meanwhile the broker's data.",
)
_messages = click.option(
    "--messages", type=click.IntRange(min=100_000), default=1_000_000, help="The size of a run."
)
_rounds = click.option(
    "--rounds", type=click.IntRange(min=1), default=3, help="How often each is repeated."
)
_seconds = click.option(
    "--seconds", type=click.FloatRange(min=1), default=10.0, help="Length of each latency run."
)


_page = click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    default=PAGE,
    show_default="docs/performance.md",
    help="The page whose results are replaced.",
)


class Measure(Protocol):
    """A benchmark whose sizes are settled. `tell` is told what goes on."""

    def __call__(self, testbed: Testbed, *, tell: Callable[[str], None]) -> Result: ...  # noqa: D102


def _throughput(messages: int, rounds: int) -> Measure:
    return partial(measure_throughput, messages=messages, rounds=rounds)


def _cores(messages: int, rounds: int) -> Measure:
    return partial(measure_cores, messages=messages, rounds=rounds)


def _ageing(messages: int, rounds: int) -> Measure:
    return partial(measure_ageing, messages=messages * _AGEING, rounds=rounds)


def _extras(messages: int, rounds: int) -> Measure:
    return partial(measure_extras, messages=messages, rounds=rounds)


def _inverse_bloom(messages: int, rounds: int) -> Measure:
    return partial(measure_inverse_bloom, messages=messages, rounds=rounds)


def _latency(messages: int, seconds: float) -> Measure:
    return partial(measure_latency, rate=_RATE, messages=messages, seconds=seconds)


def _memory(messages: int) -> Measure:
    short, long = (int(messages * times) for times in _BACKLOGS)
    return partial(measure_memory, keys=messages * _KEYS, backlogs=(short, long))


def _reconcile(messages: int, rounds: int) -> Measure:
    return partial(measure_reconcile, records=messages, rounds=rounds)


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Measure the worker on this machine. Nothing else should run meanwhile."""


@main.command("all")
@_messages
@_rounds
@_seconds
@_output
@_page
def everything(messages: int, rounds: int, seconds: float, output: Path, page: Path) -> None:
    """All benchmarks; updates docs/performance.md."""
    _run(_throughput(messages, rounds), output)
    _run(_cores(messages, rounds), output)
    _run(_ageing(messages, rounds), output)
    _run(_extras(messages, rounds), output)
    _run(_inverse_bloom(messages, rounds), output)
    _run(_latency(messages, seconds), output)
    _run(_memory(messages), output)
    _run(_reconcile(messages, rounds), output)
    write_page(WORKER, output, page)
    _console.print(f"Results in {output}; {page} is updated.")


@main.command()
@_messages
@_rounds
@_output
def throughput(messages: int, rounds: int, output: Path) -> None:
    """Messages a CPU second and a second, beside a bare loop, for values of several sizes."""
    _run(_throughput(messages, rounds), output)


@main.command()
@_messages
@_rounds
@_output
def cores(messages: int, rounds: int, output: Path) -> None:
    """What a worker does on one core, and two workers on two partitions."""
    _run(_cores(messages, rounds), output)


@main.command()
@_messages
@_rounds
@_output
def ageing(messages: int, rounds: int, output: Path) -> None:
    """What a window costs that ages all the time."""
    _run(_ageing(messages, rounds), output)


@main.command()
@_messages
@_rounds
@_output
def extras(messages: int, rounds: int, output: Path) -> None:
    """What routed duplicates, notes, filters and delivery without transactions cost."""
    _run(_extras(messages, rounds), output)


@main.command("inverse-bloom")
@_messages
@_rounds
@_output
def inverse_bloom(messages: int, rounds: int, output: Path) -> None:
    """Ids a second into a table of fixed size, and what it retains beside the formula."""
    _run(_inverse_bloom(messages, rounds), output)


@main.command()
@_messages
@_seconds
@_output
def latency(messages: int, seconds: float, output: Path) -> None:
    """End-to-end latency for several commit intervals, and at half load."""
    _run(_latency(messages, seconds), output)


@main.command()
@_messages
@_output
def memory(messages: int, output: Path) -> None:
    """Resident memory with ten times MESSAGES keys, and with backlogs."""
    _run(_memory(messages), output)


@main.command()
@_messages
@_rounds
@_output
def reconcile(messages: int, rounds: int, output: Path) -> None:
    """Records a second that a starting worker learns."""
    _run(_reconcile(messages, rounds), output)


@main.command()
@click.option(
    "--ids",
    "sizes",
    type=click.IntRange(min=100_000),
    multiple=True,
    default=_SIZES,
    help="The size of a store; may be repeated.",
)
@_rounds
@click.option(
    "--checkpoints", type=click.IntRange(min=1), default=12, help="How many are made under load."
)
@_output
@_page
def recovery(
    sizes: tuple[int, ...], rounds: int, checkpoints: int, output: Path, page: Path
) -> None:
    """Checkpoints, snapshots to a bucket, restore, rebuild; updates docs/performance.md."""
    _run(
        partial(measure_recovery, sizes=sizes, rounds=rounds, checkpoints=checkpoints),
        output,
    )
    write_page(RECOVERY, output, page)


@main.command()
@_messages
@_rounds
@_output
@_page
def pipeline(messages: int, rounds: int, output: Path, page: Path) -> None:
    """Chunk filters, Spark's data source, flights into PostgreSQL; updates docs/performance.md."""
    _run(partial(measure_filters, messages=messages, rounds=rounds), output)
    _run(partial(measure_aggregate, records=messages, rounds=rounds), output)
    write_page(PIPELINE, output, page)


@main.command()
@_output
@_page
def write(output: Path, page: Path) -> None:
    """Write docs/performance.md from the results that are there."""
    for part in (WORKER, PEERS, SCALE, PIPELINE, RECOVERY):
        write_page(part, output, page)


def _run(measure: Measure, output: Path) -> None:
    """Measure with a broker of its own, so that no benchmark inherits another's."""
    output.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    try:
        with (
            tempfile.TemporaryDirectory(dir=output, prefix="scratch-") as scratch,
            Testbed(Path(scratch).absolute()) as testbed,
            _console.status("starting") as status,
        ):
            result = measure(testbed, tell=status.update)
    except (BenchmarkFailed, KafkaException) as failed:
        raise click.ClickException(str(failed)) from failed
    save(Measured(machine=machine, result=result), output)
    show(_console, machine, result)


if __name__ == "__main__":
    main()
