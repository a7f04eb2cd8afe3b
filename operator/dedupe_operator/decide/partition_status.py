"""Build the status of one partition from all that is known of it.

The reconciler calls it for each partition at the end of a pass.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from dedupe_crds.formatting import shortened
from dedupe_crds.status.stream import (
    Comparison,
    Failover,
    LastSnapshot,
    PartitionPhase,
    PartitionStatus,
    RestoreSource,
    Transfer,
)
from dedupe_crds.status.worker import DownloadPhase, Phase, WorkerStatus
from dedupe_operator.decide.diagnosis import Problem, mounted_claim
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.rounding import coarse_age, coarse_count
from dedupe_operator.decide.volume_claims import ClaimChoice
from dedupe_operator.kubernetes.names import Object

_LONGEST_MESSAGE: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """All that is known of one partition at the end of a pass.

    `provisioned`: its claim exists. `failover`: it was moved in this pass. `bound`: its claim has a volume.
    """

    partition: int
    claim: ClaimChoice
    pod: Object | None = None
    worker: WorkerStatus | None = None
    problem: Problem | None = None
    suspended: bool = False
    provisioned: bool = True
    failover: Failover | None = None
    bound: bool = True

    @property
    def ready(self) -> bool:
        """Return whether its worker has caught up and processes messages.

        The readiness probe of Kubernetes decides. A pod that still has the volume before is not the partition's worker.
        """
        return is_ready(self.pod) and mounted_claim(self.pod) in {None, self.claim.name}


def status_of(
    view: PartitionView,
    recorded: PartitionStatus | None,
    last_snapshot: LastSnapshot | None = None,
) -> PartitionStatus:
    """Return a partition's entry in the stream's status.

    While the worker does not answer, the numbers stay as `recorded`.
    """
    worker = view.worker
    if worker is None:
        window = recorded.window if recorded else None
        truncated = recorded.window_truncated if recorded else None
        duplicates = recorded.duplicates if recorded else None
        lag = recorded.lag_messages if recorded else None
        degraded = recorded.degraded if recorded else []
    else:
        window = coarse_age(timedelta(seconds=worker.window.seconds))
        truncated = worker.window.truncated
        duplicates = coarse_count(worker.counts.duplicates)
        known = worker.input.lag_messages
        lag = None if known is None else coarse_count(max(0, known))
        degraded = [each.reason for each in worker.degraded]
    return PartitionStatus(
        partition=view.partition,
        phase=_phase(view),
        ready=view.ready,
        message=shortened(view.problem.message, _LONGEST_MESSAGE) if view.problem else None,
        node_name=((view.pod or {}).get("spec") or {}).get("nodeName"),
        persistent_volume_claim=view.claim.name,
        restore=view.claim.restore,
        last_snapshot=last_snapshot,
        restoring=_transfer(worker),
        reconciling=_to_reconcile(worker),
        reconcile_remaining=_reconcile_remaining(worker),
        comparison=comparison_of(worker, recorded),
        failover=view.failover or (recorded.failover if recorded else None),
        window=window,
        window_truncated=truncated,
        degraded=degraded,
        duplicates=duplicates,
        lag_messages=lag,
    )


def _phase(view: PartitionView) -> PartitionPhase:
    if not view.provisioned:
        # While this phase is recorded, an absent claim is one to create, not a lost one.
        return PartitionPhase.PROVISIONING
    if view.ready:
        return PartitionPhase.RUNNING
    if view.suspended:
        return PartitionPhase.SUSPENDED
    if view.problem:
        return PartitionPhase.FAILED
    return _phase_of_worker(view)


def _phase_of_worker(view: PartitionView) -> PartitionPhase:
    phase = view.worker.phase if view.worker else None
    if phase is Phase.RECONCILING:
        return PartitionPhase.RECONCILING
    comes_from_snapshot = view.claim.restore.source is RestoreSource.SNAPSHOT
    if phase is Phase.RESTORING or (comes_from_snapshot and not view.bound):
        return PartitionPhase.RESTORING
    return PartitionPhase.STARTING


def _transfer(worker: WorkerStatus | None) -> Transfer | None:
    """Return the progress of a running restore, None without one."""
    download = worker.download if worker else None
    if download is None or download.phase is not DownloadPhase.RUNNING:
        return None
    left = download.total_bytes - download.bytes
    return Transfer(
        name=download.name,
        bytes=coarse_count(download.bytes),
        total_bytes=download.total_bytes,
        remaining=_estimate(download.bytes, left, download.seconds),
    )


def _reconcile_remaining(worker: WorkerStatus | None) -> timedelta | None:
    if worker is None or worker.phase is not Phase.RECONCILING or worker.reconcile is None:
        return None
    done = worker.reconcile
    return _estimate(done.records, done.remaining, done.seconds)


def _estimate(done: int, left: int, seconds: float) -> timedelta | None:
    """Return the remaining time at the pace so far, None while the pace is unknown."""
    return timedelta(seconds=round(seconds * left / done)) if done and seconds else None


def _to_reconcile(worker: WorkerStatus | None) -> int | None:
    """Return the output records still to read while a worker catches up, else None."""
    if worker is None or worker.phase is not Phase.RECONCILING or worker.reconcile is None:
        return None
    return coarse_count(worker.reconcile.remaining)


def comparison_of(
    worker: WorkerStatus | None, recorded: PartitionStatus | None
) -> Comparison | None:
    """Return the last reconcile request: the worker's answer or the recorded one."""
    answer = worker.comparison if worker else None
    if answer is None:
        return recorded.comparison if recorded else None
    return Comparison(
        request=answer.request,
        full=answer.full,
        done=answer.done,
        records=answer.records,
        added=answer.added,
        removed=answer.removed,
        aged_out=answer.aged_out,
        unverifiable=answer.unverifiable,
        error=answer.error,
    )
