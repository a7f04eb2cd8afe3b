"""`python -m tests.lint`: run the checks, or print the figures."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click

from tests.lint import structure, words
from tests.lint.checkout import Checkout, Finding
from tests.lint.figures import figures

Check = Callable[[Checkout], Iterable[Finding]]
CHECKS: dict[str, Check] = {"structure": structure.check, "words": words.check}
HERE = Path(__file__).parents[2]


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(CHECKS)), metavar="[structure] [words]")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=HERE,
    help="Checkout to read. Default: the one that this file belongs to.",
)
@click.option("--by-package", is_flag=True, help="Group the findings by package.")
@click.option("--figures", "show_figures", is_flag=True, help="Print figures instead of findings.")
def main(names: Sequence[str], root: Path, *, by_package: bool, show_figures: bool) -> None:
    """Check the structure and the words of a checkout. Without a name: all checks.

    The exit code is 1 if there is any finding.
    """
    checkout = Checkout(root)
    if show_figures:
        click.echo(figures(checkout))
        return
    findings = [finding for name in names or CHECKS for finding in CHECKS[name](checkout)]
    click.echo(_grouped(findings) if by_package else _listed(findings))
    sys.exit(1 if findings else 0)


def _listed(findings: Sequence[Finding]) -> str:
    return "\n".join([*map(str, sorted(findings)), f"{len(findings)} findings"])


def _grouped(findings: Sequence[Finding]) -> str:
    groups = defaultdict(list)
    for finding in sorted(findings):
        groups[finding.group].append(f"  {finding}")
    blocks = ["\n".join([f"{group}: {len(lines)}", *lines]) for group, lines in groups.items()]
    return "\n\n".join([*blocks, f"{len(findings)} findings"])


if __name__ == "__main__":
    main(prog_name="python -m tests.lint")
