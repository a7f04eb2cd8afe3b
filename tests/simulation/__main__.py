"""Run simulated schedules: `python -m tests.simulation [--routers | --change] --seeds 1000`."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, islice
from multiprocessing import TimeoutError, get_context  # noqa: A004 (it is not the built-in one)
from multiprocessing.pool import Pool
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation.figures import Figures
from tests.simulation.outcome import (
    Kind,
    Outcome,
    kind_of,
    run,
    run_seeds,
    schedule_for,
    silence_logs,
)
from tests.simulation.schedule.shrink import shrink
from tests.simulation.schedule.steps import Schedule

_AT_ONCE: Final = 4
_MOST_SHOWN: Final = 3
_LONGEST_SECONDS: Final = 300.0
"""The longest wait for an outcome; a schedule takes some ten milliseconds."""


@click.command()
@click.option("--seeds", type=int, default=1000, show_default=True, help="Number of schedules.")
@click.option("--first", type=int, default=1, show_default=True, help="The first seed.")
@click.option("--minutes", type=float, help="Stop after this time.")
@click.option("--jobs", type=int, default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--seed", type=int, help="Run this seed only.")
@click.option("--routers", "routed", is_flag=True, help="Streams with routers; most of them grow.")
@click.option("--change", "changes", is_flag=True, help="Streams that get routers in place.")
@click.option("--verbose", is_flag=True, help="With --seed: print each call.")
@click.option("--replay", is_flag=True, help="With --seed: print the minimal history of a failure.")
@click.option("--shrink/--no-shrink", "shrinks", default=True, help="Shrink what fails.")
def main(  # noqa: PLR0917 (click passes each option by name)
    seeds: int,
    first: int,
    minutes: float | None,
    jobs: int,
    seed: int | None,
    routed: bool,
    changes: bool,
    verbose: bool,
    replay: bool,
    shrinks: bool,
) -> None:
    """Run the real worker on a simulated Kafka, disk and clock, a schedule for each seed."""
    silence_logs()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    kind = Kind.CHANGE if changes else Kind.ROUTERS if routed else Kind.DIRECT
    if seed is not None:
        schedule = schedule_for(seed, kind)
        sys.exit(_run_one(console, schedule, verbose=verbose, replay=replay))
    figures, began = Figures(), time.monotonic()
    end = began + minutes * 60 if minutes else None
    numbers: Iterator[int] = count(first) if end else iter(range(first, first + seeds))
    columns = (
        TextColumn("schedules"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    with (
        Progress(*columns, console=console, transient=True) as progress,
        get_context("forkserver").Pool(jobs, silence_logs, maxtasksperchild=125) as pool,
    ):
        task = progress.add_task("", total=None if end else seeds, failed="")
        while chunk := list(islice(numbers, jobs * _AT_ONCE * 8)):
            for outcome in _outcomes(pool, chunk, kind):
                figures.add(outcome)
                if outcome.defects:
                    console.print(_summary(outcome))
                progress.update(task, advance=1, failed=f"{len(figures.failed)} failed")
            if end and time.monotonic() > end:
                break
    for outcome in sorted(figures.failed, key=lambda each: each.seed)[:_MOST_SHOWN]:
        if shrinks:
            schedule = schedule_for(outcome.seed, kind)
            _run_one(console, schedule, verbose=False, replay=True)
    figures.show(console, time.monotonic() - began)
    sys.exit(1 if figures.failed else 0)


def _outcomes(pool: Pool, seeds: Sequence[int], kind: Kind) -> Iterator[Outcome]:
    """Run schedules, and yield how each went.

    A pool waits for ever for a process that crashed, in a library say. Then this raises ClickException.
    """
    running = set(seeds)
    together = [seeds[at : at + _AT_ONCE] for at in range(0, len(seeds), _AT_ONCE)]
    found = pool.imap_unordered(partial(run_seeds, kind=kind), together)
    while running:
        try:
            outcomes: list[Outcome] = found.next(_LONGEST_SECONDS)
        except TimeoutError:
            left = ", ".join(map(str, sorted(running)))
            raise click.ClickException(
                f"a process crashed or hangs in one of the seeds {left}; the kernel's log may say more. "
                "Run each alone with --seed"
            ) from None
        running.difference_update(each.seed for each in outcomes)
        yield from outcomes


def _summary(outcome: Outcome) -> str:
    return f"seed {outcome.seed}: {' | '.join(each[:200] for each in outcome.defects)}"


def _run_one(console: Console, schedule: Schedule, *, verbose: bool, replay: bool) -> int:
    """Run one schedule, and print its history; return the exit code."""
    outcome = run(schedule, console.print if verbose else None)
    if replay and outcome.defects:
        kinds = outcome.kinds
        schedule = shrink(schedule, lambda each: bool(run(each).kinds & kinds))
        outcome = run(schedule, console.print)
    console.print(f"seed {schedule.seed}, {schedule.settings}")
    for step in schedule.steps:
        console.print(f"  {step}")
    console.print(
        f"{outcome.records} records, {outcome.sessions} sessions, {outcome.calls} calls, "
        f"{outcome.simulated_seconds:.1f} simulated seconds, digest {outcome.digest}"
    )
    for defect in outcome.defects:
        console.print(f"  {defect}")
    kind = kind_of(schedule)
    flag = "" if kind is Kind.DIRECT else f"--{kind} "
    repeat = f"repeat: {flag}--seed {schedule.seed} --replay"
    console.print(repeat if outcome.defects else "all is right")
    return 1 if outcome.defects else 0


if __name__ == "__main__":
    main()
