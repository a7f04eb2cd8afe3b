"""Command `python -m benchmarks`: measure on this machine, print, and save.

docs/performance-method.md explains the figures.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from benchmarks.cases.ageing import measure_ageing
from benchmarks.cases.aggregate import measure_aggregate
from benchmarks.cases.audit import measure_audit
from benchmarks.cases.change import measure_change
from benchmarks.cases.change_latency import measure_change_latency
from benchmarks.cases.chunks import measure_chunks
from benchmarks.cases.cores import measure_cores
from benchmarks.cases.extras import measure_extras
from benchmarks.cases.filters import measure_filters
from benchmarks.cases.inverse_bloom import measure_inverse_bloom
from benchmarks.cases.landing import measure_landing
from benchmarks.cases.latency import measure_latency
from benchmarks.cases.memory import measure_memory
from benchmarks.cases.native import measure_native
from benchmarks.cases.reconcile import measure_reconcile
from benchmarks.cases.router import measure_router
from benchmarks.cases.router_latency import measure_router_latency
from benchmarks.cases.throughput import measure_throughput
from benchmarks.growth.measure import measure_growth
from benchmarks.recovery.local import measure_recovery
from benchmarks.reporting.command import (
    Recorder,
    console,
    failures_shown,
    messages_option,
    output_option,
    page_option,
    rounds_option,
    scratch_testbed,
    update_pages,
)
from benchmarks.reporting.render import (
    AUDIT,
    CHANGE,
    CHUNKS,
    GROWTH,
    LANDING,
    NATIVE,
    PARTS,
    PIPELINE,
    RECOVERY,
    ROUTERS,
    WORKER,
    Result,
)

_RATE: Final = 10_000
_SIZES: Final = (1_000_000, 10_000_000)  # ids, in the benchmark of recovery

Measure = Callable[..., Result]
"""A benchmark without its testbed and `report`, which takes a line about its progress."""


class Case(NamedTuple):
    """A benchmark: the help of its command, and how the options size it."""

    help: str
    sized: Callable[["Sizes"], Measure]


class Sizes(NamedTuple):
    """The values of the options."""

    messages: int
    rounds: int
    seconds: float

    def of(self, measure: Measure, **others: Any) -> Measure:  # noqa: ANN401 # any argument
        """Return a benchmark of so many messages and rounds."""
        return partial(measure, **{"messages": self.messages, "rounds": self.rounds, **others})


_WORKER: Final = {
    "throughput": Case(
        "Messages per CPU second and per second, compared with a bare loop, for several value sizes.",
        lambda s: s.of(measure_throughput),
    ),
    "cores": Case(
        "One worker on one core, and two workers on two partitions.", lambda s: s.of(measure_cores)
    ),
    "ageing": Case(  # twice the messages, so that several generations are dropped
        "The cost of a window that ages all the time.",
        lambda s: s.of(measure_ageing, messages=2 * s.messages),
    ),
    "extras": Case(
        "The cost of side topics, the owner log, filters and delivery without transactions.",
        lambda s: s.of(measure_extras),
    ),
    "inverse-bloom": Case(
        "Ids per second into a table of fixed size, and how many ids it retains.",
        lambda s: s.of(measure_inverse_bloom),
    ),
    "latency": Case(
        "End-to-end latency for several commit intervals, and at half load.",
        lambda s: partial(measure_latency, rate=_RATE, messages=s.messages, seconds=s.seconds),
    ),
    "memory": Case(
        "Resident memory with ten times MESSAGES keys, and with backlogs.",
        lambda s: partial(
            measure_memory,
            keys=10 * s.messages,
            backlogs=(s.messages // 10, 2 * s.messages),
        ),
    ),
    "reconcile": Case(
        "Records per second that a starting worker reads from its output topic.",
        lambda s: partial(measure_reconcile, records=s.messages, rounds=s.rounds),
    ),
}
_PIPELINE: Final = {
    "filters": Case(
        "What readers save by chunk filters, and Spark.", lambda s: s.of(measure_filters)
    ),
    "aggregate": Case(
        "Flights into PostgreSQL by job aggregate.",
        lambda s: partial(measure_aggregate, records=s.messages, rounds=s.rounds),
    ),
}
_ROUTERS: Final = {
    "router": Case(
        "Messages per CPU second of a router, compared with a bare loop.",
        lambda s: s.of(measure_router),
    ),
    "router-latency": Case(
        "End-to-end latency with routers and without them.",
        lambda s: partial(measure_router_latency, rate=_RATE, rounds=s.rounds, seconds=s.seconds),
    ),
}

_seconds = click.option(
    "--seconds", type=click.FloatRange(min=1), default=10.0, help="Length of each latency run."
)


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Measure the worker on this machine. Nothing else should run meanwhile."""


@main.command("all")
@messages_option
@rounds_option
@_seconds
@output_option
@page_option
def everything(messages: int, rounds: int, seconds: float, output: Path, page: Path) -> None:
    """Run all benchmarks of a worker; updates docs/performance.md."""
    sizes = Sizes(messages, rounds, seconds)
    _run((case.sized(sizes) for case in _WORKER.values()), output)
    update_pages([WORKER], output, page)


@main.command()
@messages_option
@rounds_option
@_seconds
@output_option
@page_option
def routers(messages: int, rounds: int, seconds: float, output: Path, page: Path) -> None:
    """Measure a router, and latency with routers; updates docs/performance.md."""
    sizes = Sizes(messages, rounds, seconds)
    _run((case.sized(sizes) for case in _ROUTERS.values()), output)
    update_pages([ROUTERS], output, page)


@main.command()
@messages_option
@rounds_option
@output_option
@page_option
def pipeline(messages: int, rounds: int, output: Path, page: Path) -> None:
    """Measure chunk filters, Spark and PostgreSQL; updates docs/performance.md."""
    sizes = Sizes(messages, rounds, 0)
    _run((case.sized(sizes) for case in _PIPELINE.values()), output)
    update_pages([PIPELINE], output, page)


@main.command()
@messages_option
@rounds_option
@output_option
@page_option
def many_chunks(messages: int, rounds: int, output: Path, page: Path) -> None:
    """Measure Spark's data source over 10,000 chunks; updates docs/performance.md."""
    _run([partial(measure_chunks, messages=messages, rounds=rounds)], output)
    update_pages([CHUNKS], output, page)


@main.command()
@messages_option
@rounds_option
@output_option
@page_option
def landing(messages: int, rounds: int, output: Path, page: Path) -> None:
    """Measure job land and Spark's own file sink; updates docs/performance.md."""
    _run([partial(measure_landing, messages=messages, rounds=rounds)], output)
    update_pages([LANDING], output, page)


@main.command()
@click.option(
    "--ids",
    type=click.IntRange(min=200_000),
    default=1_000_000,
    help="Ids that the stream knows before it grows.",
)
@click.option(
    "--rate",
    type=click.IntRange(min=100),
    default=2_000,
    help="Messages a second meanwhile.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=5),
    default=20.0,
    help="Length of the load before the growth.",
)
@output_option
@page_option
def growth(ids: int, rate: int, seconds: float, output: Path, page: Path) -> None:
    """Measure a stream that gets more partitions; updates docs/performance.md."""
    _run([partial(measure_growth, ids=ids, rate=rate, seconds=seconds)], output)
    update_pages([GROWTH], output, page)


@main.command()
@click.option(
    "--ids",
    "sizes",
    type=click.IntRange(min=200_000),
    multiple=True,
    default=_SIZES,
    help="Ids in a store; may be repeated.",
)
@rounds_option
@click.option(
    "--checkpoints", type=click.IntRange(min=1), default=12, help="Checkpoints under load."
)
@output_option
@page_option
def recovery(
    sizes: tuple[int, ...], rounds: int, checkpoints: int, output: Path, page: Path
) -> None:
    """Measure checkpoints, snapshots and restores; updates docs/performance.md."""
    measure = partial(measure_recovery, sizes=sizes, rounds=rounds, checkpoints=checkpoints)
    _run([measure], output)
    update_pages([RECOVERY], output, page)


@main.command()
@click.option(
    "--records",
    type=click.IntRange(min=100_000),
    default=100_000_000,
    help="Records of the input; 100 million take 30 GB of disk.",
)
@output_option
@page_option
def audit(records: int, output: Path, page: Path) -> None:
    """Measure the audit of large topics; updates docs/performance.md."""
    _run([partial(measure_audit, records=records)], output)
    update_pages([AUDIT], output, page)


_half_load = click.option(
    "--rate", type=click.IntRange(min=100), default=95_000, help="Messages a second."
)
_before = click.option("--before", "commit", required=True, help="The earlier commit.")
_pairs = click.option(
    "--rounds", type=click.IntRange(min=1), default=5, help="Rounds, in which both take a turn."
)


@main.command()
@_before
@messages_option
@_pairs
@output_option
@page_option
def change(commit: str, messages: int, rounds: int, output: Path, page: Path) -> None:
    """Compare CPU time with an earlier commit; updates docs/performance.md."""
    _run([partial(measure_change, commit=commit, messages=messages, rounds=rounds)], output)
    update_pages([CHANGE], output, page)


@main.command()
@_before
@_half_load
@_pairs
@_seconds
@output_option
@page_option
def change_latency(**options: Any) -> None:  # noqa: ANN401 # those above
    """Compare latency with an earlier commit; updates docs/performance.md."""
    output, page = options.pop("output"), options.pop("page")
    _run([partial(measure_change_latency, **options)], output)
    update_pages([CHANGE], output, page)


@main.command()
@messages_option
@_half_load
@_pairs
@_seconds
@output_option
@page_option
def native(**options: Any) -> None:  # noqa: ANN401 # those above
    """Compare the native path with today's; updates docs/performance.md."""
    output, page = options.pop("output"), options.pop("page")
    _run([partial(measure_native, **options)], output)
    update_pages([NATIVE], output, page)


@main.command()
@output_option
@page_option
def write(output: Path, page: Path) -> None:
    """Write both performance pages from the results in the output directory."""
    update_pages(PARTS, output, page)


def _run(measures: Iterable[Measure], output: Path) -> None:
    """Run each benchmark with a new broker, so that none affects another."""
    for measure in measures:
        recorder = Recorder(output)
        with failures_shown(), scratch_testbed(output) as testbed, console.status("starting") as s:
            result = measure(testbed, report=s.update)
        recorder.save(result)


def _add(name: str, case: Case) -> None:
    """Add the command of a benchmark."""

    def command(messages: int, rounds: int, seconds: float, output: Path) -> None:
        _run([case.sized(Sizes(messages, rounds, seconds))], output)

    for option in (output_option, _seconds, rounds_option, messages_option):
        command = option(command)
    main.command(name, help=case.help)(command)


for _name, _case in {**_WORKER, **_ROUTERS, **_PIPELINE}.items():
    _add(_name, _case)

if __name__ == "__main__":
    main()
