"""Each mutant fails on the seed that found it, as recorded; on the same seed the tree as it is fails not.

The seeds were found by `python -m tests.simulation.mutants`, see there.
"""

import pytest

from tests.simulation.mutants.catalogue import load_killings, load_mutants
from tests.simulation.mutants.hunt import MutatedTree, first_failure

MUTANTS = load_mutants()
KILLINGS = load_killings()


def test_every_mutant_that_was_found_is_in_the_catalogue() -> None:
    assert KILLINGS.keys() <= MUTANTS.keys()
    assert len(KILLINGS) >= 25
    assert len(KILLINGS) >= 25


@pytest.mark.parametrize("name", KILLINGS)
def test_a_mutant_fails_on_its_seed(name: str) -> None:
    killing = KILLINGS[name]
    with MutatedTree(MUTANTS[name]) as path:
        failure = first_failure(path, [killing.seed])
    assert failure is not None
    assert set(failure.kinds) & set(killing.kinds), failure.defect


def test_the_tree_as_it_is_fails_on_none_of_these_seeds() -> None:
    with MutatedTree(None) as path:
        seeds = sorted({killing.seed for killing in KILLINGS.values()})
        assert first_failure(path, seeds) is None
