"""Set the gauges of a stream. The reconciler calls it at the end of each pass."""

from dedupe_crds.status.stream import StreamStatus
from dedupe_operator import metrics
from dedupe_operator.controller.context import ReconcileContext
from dedupe_operator.decide.growth import step_number


def set_gauges(context: ReconcileContext, status: StreamStatus, *, ready: bool) -> None:
    """Set the gauges of a stream as its new status has it."""
    metadata = context.stream.metadata
    key = (metadata.namespace, metadata.name)
    metrics.begin_counters(*key)
    metrics.set_ready(*key, ready=None if context.stream.spec.suspend else ready)
    metrics.INPUT_PARTITIONS_ADDED.labels(*key).set(len(status.added_partitions or ()))
    if growth := context.growth:
        metrics.EPOCH.labels(*key).set(max(0, growth.epochs.switched))
        metrics.GROWTH_STEP.labels(*key).set(step_number(growth))
