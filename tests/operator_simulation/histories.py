"""Run the history of a seed or of a schedule."""

from collections.abc import Callable

from tests.operator_simulation.schedule import Schedule, generate
from tests.operator_simulation.world import Outcome, World


def run_seed(seed: int) -> Outcome:
    """Run the history of a seed."""
    return run(generate(seed))


def run(schedule: Schedule, listen: Callable[[str], None] | None = None) -> Outcome:
    """Run the history of a schedule; `listen` gets its lines."""
    return World(schedule, listen).run()
