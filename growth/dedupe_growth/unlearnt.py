"""Read from worker statuses how much new partitions have left to learn.

The operator and `dedupe run` hand it to the controller, from the workers' statuses.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dedupe_crds.status.worker import Phase, WorkerStatus

LEARNING: Final = "Growth"
"""The reason of what a worker reads, in its status, while it learns ids of older partitions."""


def is_learning(status: WorkerStatus | None) -> bool:
    """Return whether a worker runs, and learns the ids that became its own."""
    return status is not None and status.phase is Phase.RECONCILING and _reads_others(status)


def unlearnt(statuses: Iterable[WorkerStatus | None]) -> Mapping[int, int]:
    """Return how much each worker has left to learn, by partition, as far as they say."""
    found: dict[int, int] = {}
    for status in statuses:
        if status is None:
            continue
        if status.phase is Phase.RUNNING:
            found[status.partition] = 0
        elif status.reconcile is not None and _reads_others(status):
            found[status.partition] = status.reconcile.remaining
    return found


def _reads_others(status: WorkerStatus) -> bool:
    return status.reconcile is not None and status.reconcile.reason == LEARNING
