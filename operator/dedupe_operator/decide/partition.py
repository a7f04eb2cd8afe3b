"""The status of one partition."""

from dataclasses import dataclass
from datetime import timedelta

from dedupe_crds.status import PartitionPhase, PartitionStatus
from dedupe_crds.worker_status import Phase, WorkerStatus
from dedupe_operator.decide import rollout
from dedupe_operator.decide.claims import ClaimChoice
from dedupe_operator.decide.figures import coarse_age, coarse_count
from dedupe_operator.decide.trouble import Problem
from dedupe_operator.labels import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """All that is known of one partition at one moment. `provisioned`: its claim was there."""

    partition: int
    claim: ClaimChoice
    pod: Object | None = None
    worker: WorkerStatus | None = None
    problem: Problem | None = None
    suspended: bool = False
    provisioned: bool = True

    @property
    def ready(self) -> bool:
        """Reconciled and passing messages on, as Kubernetes' own probe found."""
        return rollout.is_ready(self.pod)


def status_of(view: PartitionView, recorded: PartitionStatus | None) -> PartitionStatus:
    """What the stream's status says of a partition. Figures of a silent worker stay as `recorded`."""
    worker = view.worker
    if worker is None:
        window = recorded.window if recorded else None
        truncated = recorded.window_truncated if recorded else None
        duplicates = recorded.duplicates if recorded else None
        lag = recorded.lag_messages if recorded else None
    else:
        window = coarse_age(timedelta(seconds=worker.window.seconds))
        truncated = worker.window.truncated
        duplicates = coarse_count(worker.counts.duplicates)
        known = worker.input.lag_messages
        lag = None if known is None else coarse_count(max(0, known))
    return PartitionStatus(
        partition=view.partition,
        phase=_phase(view),
        ready=view.ready,
        message=view.problem.message if view.problem else None,
        node_name=((view.pod or {}).get("spec") or {}).get("nodeName"),
        persistent_volume_claim=view.claim.name,
        restore=view.claim.restore,
        window=window,
        window_truncated=truncated,
        duplicates=duplicates,
        lag_messages=lag,
    )


def _phase(view: PartitionView) -> PartitionPhase:
    if view.ready:
        return PartitionPhase.RUNNING
    if not view.provisioned:
        # While this is on record, a claim that is not there is still to be made, not lost.
        return PartitionPhase.PROVISIONING
    if view.suspended:
        return PartitionPhase.SUSPENDED
    if view.problem:
        return PartitionPhase.FAILED
    if view.worker and view.worker.phase is Phase.RECONCILING:
        return PartitionPhase.RECONCILING
    return PartitionPhase.PROVISIONING
