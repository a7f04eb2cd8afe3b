"""Hunt mutants: `python -m tests.simulation.mutants [NAME ...] [--seeds 2000] [--jobs 2]`.

Prints for each mutant the seed that found it and the kind of defect, and writes both to killed.toml. Exit code 1 if one
survived or does not apply.
"""

import sys
from collections.abc import Iterable
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
from tests.simulation.mutants.hunt import FIRST_SEED, Hunt, hunt


@click.command()
@click.argument("names", nargs=-1)
@click.option("--seeds", type=int, default=2000, show_default=True, help="Most seeds for each.")
@click.option("--first", type=int, default=FIRST_SEED, show_default=True, help="The first seed.")
@click.option("--jobs", type=int, default=2, show_default=True, help="Mutants at the same time.")
@click.option("--new", is_flag=True, help="Only mutants that are not in killed.toml.")
def main(names: tuple[str, ...], seeds: int, first: int, jobs: int, new: bool) -> None:
    """Run random schedules on mutants of the worker until one finds each."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    try:
        mutants = chosen(load_mutants(), names)
    except KeyError as error:
        raise click.UsageError(f"there is no mutant {error}") from error
    if new:
        mutants = [each for each in mutants if each.name not in load_killings()]
    hunts, failed = _hunt_all(console, mutants, seeds=seeds, first=first, jobs=jobs)
    _show(console, hunts)
    for message in failed:
        console.print(message)
    sys.exit(1 if failed or any(each.killing is None for each in hunts) else 0)


def _hunt_all(
    console: Console, mutants: Iterable[Mutant], *, seeds: int, first: int, jobs: int
) -> tuple[list[Hunt], list[str]]:
    hunts: list[Hunt] = []
    failed: list[str] = []
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(hunt, each, seeds, first) for each in mutants]
        for done in as_completed(running):
            try:
                found = done.result()
            except (MutantDoesNotApply, RuntimeError) as error:
                failed.append(str(error))
                console.print(f"failed: {error}")
                continue
            hunts.append(found)
            console.print(f"{found.mutant}: {_outcome(found)}, {found.seconds:.0f} s")
            if found.killing:
                save_killings({**load_killings(), found.mutant: found.killing})
    return hunts, failed


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
