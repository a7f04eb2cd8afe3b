"""Each broken rule of the operator is found by its seed, on which the operator as it is has no defect."""

import pytest

from tests.operator_simulation.histories import run_seed
from tests.operator_simulation.mutants import Mutant, first_failure, load_mutants
from tests.support.layers import matrix

pytestmark = pytest.mark.later  # they judge the simulation, not the product

MUTANTS = load_mutants()
SOME = 10
"""One mutant in so many is for each run of all tests."""


@pytest.mark.parametrize(
    "mutant",
    [each if place % SOME == 0 else matrix(each) for place, each in enumerate(MUTANTS)],
    ids=[each.name for each in MUTANTS],
)
def test_a_broken_rule_is_found(mutant: Mutant) -> None:
    failure = first_failure(mutant, [mutant.seed])
    assert failure is not None
    assert mutant.kind in {each.partition(":")[0] for each in failure[1]}
    assert run_seed(mutant.seed).defects == ()
