"""Say what a pass is about to do with volumes, so that the status has it before.

The volume manager and the reconciler call it. What the status can't take is not done.
"""

from collections.abc import Iterable

from dedupe_crds.status.stream import PartitionPhase, PartitionStatus
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide.volume_claims import ClaimChoice
from dedupe_operator.volume_events import report_choice


def changed(context: ReconcileContext, result: ReconcileResult) -> list[int]:
    """Return the partitions whose choice the recorded status does not have."""
    return [
        partition
        for partition, choice in result.claims.items()
        if _is_changed(context, partition, choice)
    ]


def intended(context: ReconcileContext, result: ReconcileResult) -> list[PartitionStatus]:
    """Return all partitions as the status must record them."""
    return [_intended(context, partition, choice) for partition, choice in result.claims.items()]


def take_back(
    context: ReconcileContext, result: ReconcileResult, partitions: Iterable[int]
) -> None:
    """Leave partitions unchanged whose new choice could not be recorded."""
    for partition in set(changed(context, result)).intersection(partitions):
        keep_recorded(context, result, partition)


def announce(context: ReconcileContext, result: ReconcileResult) -> None:
    """Add events about the choices that were just recorded."""
    for partition in changed(context, result):
        report_choice(context, result, partition, result.claims[partition])


def keep_recorded(context: ReconcileContext, result: ReconcileResult, partition: int) -> None:
    """Leave a partition as it is; one without a recorded claim gets none in this pass."""
    result.undecided.add(partition)
    recorded = context.recorded_partition(partition)
    if recorded and recorded.restore and recorded.persistent_volume_claim:
        name = recorded.persistent_volume_claim
        result.claims[partition] = ClaimChoice(name=name, restore=recorded.restore, is_new=False)
    else:
        result.claims.pop(partition, None)


def _is_changed(context: ReconcileContext, partition: int, choice: ClaimChoice) -> bool:
    recorded = context.recorded_partition(partition)
    return choice.is_new or recorded is None or recorded.restore != choice.restore


def _intended(context: ReconcileContext, partition: int, choice: ClaimChoice) -> PartitionStatus:
    recorded = context.recorded_partition(partition)
    if recorded is not None and not choice.is_new:
        return recorded.model_copy(update={"restore": choice.restore})
    return PartitionStatus(
        partition=partition,
        phase=PartitionPhase.PROVISIONING,
        persistent_volume_claim=choice.name,
        restore=choice.restore,
        comparison=recorded.comparison if recorded else None,
        failover=recorded.failover if recorded else None,
    )
