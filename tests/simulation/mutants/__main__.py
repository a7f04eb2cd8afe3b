"""Hunt mutants: `python -m tests.simulation.mutants [NAME ...] [--seeds 2000] [--jobs 2]`.

Tries the seed that is in killed.toml first, so that after a change of the simulation only those are hunted that it does
not find any more. Prints for each mutant the seed that found it and the kind of defect, and writes killed.toml anew.
Exit code 1 if a mutant survived or does not apply.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed

import click
from rich.console import Console
from rich.table import Table

from tests.simulation.mutants.catalogue import (
    Mutant,
    MutantDoesNotApply,
    chosen,
    load_killings,
    load_mutants,
    save_killings,
)
from tests.simulation.mutants.hunt import FIRST_SEED, Hunt, Probe, hunt


@click.command()
@click.argument("names", nargs=-1)
@click.option("--seeds", type=int, default=2000, show_default=True, help="Most seeds for each.")
@click.option("--first", type=int, default=FIRST_SEED, show_default=True, help="The first seed.")
@click.option("--jobs", type=int, default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--new", is_flag=True, help="Only mutants that are not in killed.toml.")
@click.option("--afresh", is_flag=True, help="Do not try the seeds in killed.toml first.")
def main(  # noqa: PLR0917 (click passes each option by name)
    names: tuple[str, ...], seeds: int, first: int, jobs: int, new: bool, afresh: bool
) -> None:
    """Run random schedules on mutants of the worker until one finds each."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    try:
        mutants = chosen(load_mutants(), names)
    except KeyError as error:
        raise click.UsageError(f"there is no mutant {error}") from error
    known = load_killings()
    if new:
        mutants = [each for each in mutants if each.name not in known]
    tried = {} if afresh else {name: [each.seed] for name, each in known.items()}
    hunts, failed = _hunt_all(console, mutants, tried, seeds, first, jobs)
    _show(console, hunts)
    for message in failed:
        console.print(message)
    sys.exit(1 if failed or any(each.killing is None for each in hunts) else 0)


def _hunt_all(  # noqa: PLR0917 (of one run, each once)
    console: Console,
    mutants: Iterable[Mutant],
    tried: Mapping[str, list[int]],
    seeds: int,
    first: int,
    jobs: int,
) -> tuple[list[Hunt], list[str]]:
    hunts: list[Hunt] = []
    failed: list[str] = []

    def hunt_one(mutant: Mutant) -> Hunt:
        with Probe() as probe:
            return hunt(mutant, probe, seeds, first, tried.get(mutant.name, ()))

    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(hunt_one, each) for each in mutants]
        for done in as_completed(running):
            try:
                found = done.result()
            except (MutantDoesNotApply, RuntimeError) as error:
                failed.append(str(error))
                console.print(f"failed: {error}")
                continue
            hunts.append(found)
            console.print(f"{found.mutant}: {_outcome(found)}, {found.seconds:.0f} s")
            _save(found)
    return hunts, failed


def _save(found: Hunt) -> None:
    """Record how a mutant was found, or that it no longer is; forget mutants that are gone."""
    killings = {name: each for name, each in load_killings().items() if name in load_mutants()}
    killings.pop(found.mutant, None)
    save_killings(killings | ({found.mutant: found.killing} if found.killing else {}))


def _outcome(found: Hunt) -> str:
    if found.killing is None:
        return f"survived {found.seeds} seeds"
    return f"seed {found.killing.seed} (number {found.seeds}): {found.defect[:160]}"


def _show(console: Console, hunts: Iterable[Hunt]) -> None:
    table = Table("mutant", "seeds", "killing seed", "kinds", "seconds")
    for each in sorted(hunts, key=lambda found: found.mutant):
        killing = each.killing
        seed, kinds = (
            (str(killing.seed), ", ".join(killing.kinds)) if killing else ("-", "survived")
        )
        table.add_row(each.mutant, str(each.seeds), seed, kinds, f"{each.seconds:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
