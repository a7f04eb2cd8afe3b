"""Run histories of a stream and its operator: `python -m tests.operator_simulation --seeds 1000`."""

import os
import sys
import time
from collections import Counter
from functools import partial
from multiprocessing import get_context
from typing import Final

import click

from tests.operator_simulation.histories import run, run_seed
from tests.operator_simulation.schedule import Schedule, generate, shrink
from tests.operator_simulation.world import silence_logs

_MOST_SHOWN: Final = 3


@click.command()
@click.option("--seeds", type=int, default=150, show_default=True, help="Number of histories.")
@click.option("--first", type=int, default=1, show_default=True, help="The first seed.")
@click.option("--jobs", type=int, default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--seed", type=int, help="Run this seed only.")
@click.option("--verbose", is_flag=True, help="With --seed: print each pass and its writes.")
@click.option("--replay", is_flag=True, help="With --seed: print the minimal history of a failure.")
def main(
    seeds: int, first: int, jobs: int, *, seed: int | None, verbose: bool, replay: bool
) -> None:
    """Run the real reconciler on a simulated cluster, a history for each seed."""
    silence_logs()
    if seed is not None:
        sys.exit(_run_one(seed, verbose=verbose, replay=replay))
    began, struck = time.monotonic(), Counter[str]()
    passes, failed = 0, []
    numbers = range(first, first + seeds)
    with get_context("forkserver").Pool(jobs, silence_logs) as pool:
        for outcome in pool.imap_unordered(run_seed, numbers, chunksize=5):
            struck.update(outcome.struck)
            passes += outcome.passes
            if outcome.defects:
                failed.append(outcome.seed)
                click.echo(f"seed {outcome.seed}: {outcome.defects[0][:300]}")
    for number in sorted(failed)[:_MOST_SHOWN]:
        _run_one(number, verbose=False, replay=True)
    faults = ", ".join(f"{name} {count}" for name, count in struck.most_common())
    seconds = time.monotonic() - began
    click.echo(
        f"{seeds} histories of an operator, {passes} passes, {seconds:.0f} s; faults: {faults}"
    )
    click.echo(f"{len(failed)} failed")
    sys.exit(1 if failed else 0)


def _run_one(seed: int, *, verbose: bool, replay: bool) -> int:
    schedule = generate(seed)
    outcome = run(schedule, click.echo if verbose else None)
    if replay and outcome.defects:
        schedule = shrink(schedule, partial(_fails_alike, kinds=outcome.kinds))
        outcome = run(schedule, click.echo)
    click.echo(
        f"seed {seed}: {schedule.partitions} partitions, provider {schedule.provider or 'none'}, "
        f"slow {schedule.slow}, {outcome.passes} passes, digest {outcome.digest}"
    )
    for step in schedule.steps:
        click.echo(f"  {step}")
    for defect in outcome.defects:
        click.echo(f"  {defect}")
    click.echo(f"repeat: --seed {seed} --replay" if outcome.defects else "all is right")
    return 1 if outcome.defects else 0


def _fails_alike(schedule: Schedule, kinds: frozenset[str]) -> bool:
    return bool(run(schedule).kinds & kinds)


if __name__ == "__main__":
    main()
