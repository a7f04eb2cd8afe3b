"""Command `python -m benchmarks.scale`: a store from 1 M to 100 M ids.

docs/performance-method.md explains the figures.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import click
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks.reporting.command import (
    Recorder,
    console,
    failures_shown,
    output_option,
    page_option,
    scratch_testbed,
    update_pages,
)
from benchmarks.reporting.render import SCALE, load
from benchmarks.scale.climb import Follow, climb, work_of
from benchmarks.scale.figures import figures_of, write_figures
from benchmarks.scale.limit import MemoryLimit
from benchmarks.scale.result import Rung, Scale
from dedupe_crds.quantity import GIB

_MILLIONS: Final = (1, 2, 5, 10, 20, 40, 60, 80, 100)
_KEYS: Final = _MILLIONS[-1] * 1_000_000
_SPEED_SECONDS: Final = 120.0  # the time left is estimated from the speed over that time


@click.command(context_settings={"show_default": True})
@click.option(
    "--keys",
    type=click.IntRange(min=1_000_000),
    default=_KEYS,
    help="Ids at the last step; the steps before are 1, 2, 5, 10, 20, 40, 60 and 80 million.",
)
@click.option(
    "--messages",
    type=click.IntRange(min=100_000),
    default=1_000_000,
    help="Messages for the worker at each step.",
)
@click.option(
    "--no-limit", is_flag=True, help=f"Measure without the limit of {GIB >> 20} MiB of memory."
)
@click.option(
    "--write/--no-write",
    default=None,
    show_default="if all steps are measured",
    help="Update docs/performance.md, docs/scale.md and the figures of `dedupe size`.",
)
@click.option(
    "--write-only",
    is_flag=True,
    help="Update them from the results that there are; measure nothing.",
)
@output_option
@page_option
def main(
    *,
    keys: int,
    messages: int,
    no_limit: bool,
    write: bool | None,
    write_only: bool,
    output: Path,
    page: Path,
) -> None:
    """Fill a partition's store step by step, and measure a worker at each.

    Nothing else should run meanwhile.
    """
    # What ends it also ends the processes below it, and removes their control group.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not write_only:
        _measure(output, keys, messages, None if no_limit else GIB)
    if write_only or write or (write is None and keys >= _KEYS):
        _write(output, page)


def _measure(output: Path, keys: int, messages: int, limit_bytes: int | None) -> None:
    recorder = Recorder(output)
    rungs = [*(each for each in (m * 1_000_000 for m in _MILLIONS) if each < keys), keys]
    kept: list[Scale] = []

    def keep(result: Scale) -> None:
        recorder.save(result, shown=False)
        if len(result.rungs) > (len(kept[-1].rungs) if kept else 0):
            console.print(_line(result.largest))
        kept.append(result)

    try:
        with (
            failures_shown(),
            MemoryLimit(limit_bytes) if limit_bytes else nullcontext() as limit,
            scratch_testbed(output) as testbed,
            _progress(work_of(rungs, messages)) as follow,
        ):
            climb(testbed, limit, rungs=rungs, messages=messages, follow=follow, keep=keep)
    finally:
        if kept:
            recorder.save(kept[-1])
            console.print(
                f"Results in {output / 'scale.json'}; --write-only brings them to the pages."
            )


def _write(output: Path, page: Path) -> None:
    found = load(SCALE, output).get("scale")
    if found is None or not isinstance(found.result, Scale):
        raise click.ClickException(f"{output} has no results: run without --write-only first")
    update_pages([SCALE], output, page)
    if found.result.rebuild:
        write_figures(figures_of(found.result, found.machine))
        console.print("docs/scale.md and the figures of `dedupe size` are updated.")
    else:
        console.print("The run was not complete: `dedupe size` keeps its figures.")


def _line(rung: Rung) -> str:
    run, seconds = rung.run, rung.restart.reconciling_seconds
    return (
        f"{rung.keys / 1e6:.3g} M ids: {run.per_cpu_second:,.0f} msgs/CPU s, {run.per_second:,.0f}/s, "
        f"{run.anonymous >> 20} MiB, {rung.bytes_per_id:.1f} B an id, reconciling after {seconds:.1f} s"
    )


@contextmanager
def _progress(total: float) -> Iterator[Follow]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, speed_estimate_period=_SPEED_SECONDS
    ) as progress:
        task = progress.add_task("starting", total=total)

        def follow(what: str, done: float = 0) -> None:
            progress.update(task, description=what, advance=done)

        yield follow


if __name__ == "__main__":
    main()
