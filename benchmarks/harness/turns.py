"""Two kinds of processes take turns at the same work, in one run.

Each round begins with the other one. The first round is not counted, because a new broker compiles its code meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from benchmarks.harness.processes import Environment

Kind = TypeVar("Kind", bound=str)
Run = TypeVar("Run")


def orders(kinds: Sequence[Kind], rounds: int) -> Iterator[tuple[int, Sequence[Kind]]]:
    """Yield the number of each round and the order of its turns; round 0 is not counted."""
    for number in range(rounds + 1):
        yield number, kinds if number % 2 else kinds[::-1]


def take_turns(
    what: str,
    environments: Mapping[Kind, Environment],
    run: Callable[..., Run],
    *,
    rounds: int,
    report: Callable[[str], None],
) -> dict[Kind, list[Run]]:
    """Call `run(environment=...)` for each kind in each round; return what is counted."""
    runs: dict[Kind, list[Run]] = {kind: [] for kind in environments}
    for number, order in orders(list(environments), rounds):
        for kind in order:
            report(f"round {number} of {rounds}: {what}, {kind}")
            runs[kind] += [run(environment=environments[kind])] * bool(number)
    return runs
