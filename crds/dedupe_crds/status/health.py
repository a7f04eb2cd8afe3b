"""Find the most important condition that is not as it should be.

The operator writes its reason into the status, for `kubectl get`; `kubectl dedupe` shows its message.
"""

from collections.abc import Sequence
from typing import Final

from dedupe_crds.status.stream import Condition

_NOT_WELL: Final = (
    ("ReconciliationPaused", "True"),
    ("Degraded", "True"),
    ("WindowHealthy", "False"),
    ("GuaranteesMet", "False"),
    ("InputPartitionsAdded", "True"),
    ("InputPartitioning", "False"),
    ("SnapshotsHealthy", "False"),
    ("Ready", "False"),
)
"""Type and status of each condition that is not as it should be, the most important first."""


def first_problem(conditions: Sequence[Condition]) -> Condition | None:
    """Return the most important condition that is not well, None if all are."""
    found = {(each.type, each.status.value): each for each in conditions}
    return next((found[each] for each in _NOT_WELL if each in found), None)


def reason(conditions: Sequence[Condition]) -> str | None:
    """Return the reason of the most important problem, None without one."""
    problem = first_problem(conditions)
    if problem is None:
        return None
    # Its reason says how reconciliation was paused, which is no answer to what is wrong.
    return problem.type if problem.type == "ReconciliationPaused" else problem.reason
