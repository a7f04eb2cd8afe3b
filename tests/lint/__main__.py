"""`python -m tests.lint`: run the checks."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click

from tests.lint import structure, words
from tests.lint.checkout import Checkout, Finding

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
def main(names: Sequence[str], root: Path) -> None:
    """Check the structure and the words of a checkout. Without a name: all checks.

    The exit code is 1 if there is any finding.
    """
    checkout = Checkout(root)
    findings = [finding for name in names or CHECKS for finding in CHECKS[name](checkout)]
    click.echo("\n".join([*map(str, sorted(findings)), f"{len(findings)} findings"]))
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main(prog_name="python -m tests.lint")
