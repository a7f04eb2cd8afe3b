"""Report which volume a partition gets, and why. The volume manager calls it."""

from dedupe_crds.formatting import listed
from dedupe_operator import metrics
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.decide.volume_claims import ClaimChoice, ClaimProblem, RestoreNeed


def report_problem(
    context: ReconcileContext,
    result: ReconcileResult,
    partition: int,
    need: RestoreNeed,
    problem: ClaimProblem,
) -> None:
    """Add events about a volume that can't be used, and sources that failed."""
    recorded = context.recorded_partition(partition)
    known = recorded.persistent_volume_claim if recorded else None
    for name, reason in need.tried.items():
        if reason == problem.source:
            message = f"Partition {partition} could not be restored from {name}: {reason}."
            if need.name != known:
                message += f" PVC {known} got no volume and can be deleted."
            result.events.append(StreamEvent(reason="RestoreFailed", message=message, warning=True))
    if problem.unusable and problem.unusable in need.reason:
        message = f"Partition {partition}: {need.reason}. The PVC is left unchanged."
        result.events.append(StreamEvent(reason="VolumeRefused", message=message, warning=True))


def report_choice(
    context: ReconcileContext, result: ReconcileResult, partition: int, choice: ClaimChoice
) -> None:
    """Add events about a choice that the status does not have yet; count it."""
    restore = choice.restore
    if restore.refused:
        message = f"Partition {partition} is not restored from {listed(restore.refused)}."
        result.events.append(StreamEvent(reason="SnapshotRefused", message=message, warning=True))
    if not choice.is_new:
        return
    origin = (
        f", restored from {restore.name}" if restore.name and restore.name != choice.name else ""
    )
    message = f"Partition {partition} uses PVC {choice.name}{origin}: {restore.reason}."
    result.events.append(StreamEvent(reason=f"StoreFrom{restore.source}", message=message))
    if context.recorded_partition(partition):  # else it is its first store, and none was lost
        stream = context.stream.metadata
        metrics.RESTORES.labels(stream.namespace, stream.name, restore.source.value).inc()
