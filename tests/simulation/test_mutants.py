"""Each mutant fails on the seed that found it, as recorded; on the same seed the tree as it is fails not.

The seeds were found by `make mutants`, see mutants/__main__.py.
"""

from collections.abc import Iterator

import pytest

from tests.simulation.mutants.catalogue import load_killings, load_mutants
from tests.simulation.mutants.hunt import MutatedTree, Probe
from tests.support.layers import matrix

pytestmark = pytest.mark.later  # they judge the simulation, not the product

MUTANTS = load_mutants()
KILLINGS = load_killings()
SOME = 10
"""One mutant in so many is for each run of all tests."""


@pytest.fixture(scope="module")
def probe() -> Iterator[Probe]:
    with Probe() as started:
        yield started


def test_every_mutant_was_found() -> None:
    assert KILLINGS.keys() == MUTANTS.keys()
    assert len(KILLINGS) >= 25


@pytest.mark.parametrize(
    "name", [name if place % SOME == 0 else matrix(name) for place, name in enumerate(KILLINGS)]
)
def test_a_mutant_fails_on_its_seed(probe: Probe, name: str) -> None:
    killing = KILLINGS[name]
    mutant = MUTANTS[name]
    with MutatedTree(mutant) as path:
        failure = probe.first_failure(path, [killing.seed], mutant.kind)
    assert failure is not None
    assert set(failure.kinds) & set(killing.kinds), failure.defect
