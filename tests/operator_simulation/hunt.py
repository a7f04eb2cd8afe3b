"""Find a seed for each mutant: `python -m tests.operator_simulation.hunt [NAME]…`."""

import sys

from tests.operator_simulation.mutants import first_failure, load_mutants


def main() -> None:
    """Print a seed that finds each mutant, of 1,000 at most."""
    for mutant in load_mutants():
        if not sys.argv[1:] or mutant.name in sys.argv[1:]:
            print(mutant.name, first_failure(mutant, range(1, 1001)) or "is not found", flush=True)


if __name__ == "__main__":
    main()
