"""The status of one partition."""

from dataclasses import dataclass
from datetime import timedelta

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
from dedupe_operator.decide import rollout
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.rounding import coarse_age, coarse_count
from dedupe_operator.decide.volume_claims import ClaimChoice
from dedupe_operator.kubernetes.names import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """All that is known of one partition at one moment. `provisioned`: its claim was there.
    `failover`: it was moved just now, `bound`: its claim has a volume."""

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
        """Reconciled and passing messages on, as Kubernetes' own probe found."""
        return rollout.is_ready(self.pod)


def status_of(
    view: PartitionView,
    recorded: PartitionStatus | None,
    last_snapshot: LastSnapshot | None = None,
) -> PartitionStatus:
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
        last_snapshot=last_snapshot,
        restoring=_transfer(worker),
        reconciling=_to_reconcile(worker),
        reconcile_remaining=_reconcile_remaining(worker),
        comparison=comparison_of(worker, recorded),
        failover=view.failover or (recorded.failover if recorded else None),
        window=window,
        window_truncated=truncated,
        duplicates=duplicates,
        lag_messages=lag,
    )


def _phase(view: PartitionView) -> PartitionPhase:
    if not view.provisioned:
        # While this is on record, a claim that is not there is still to be made, not lost.
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
    """How far a restore is, while it is on its way."""
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
    """The time to come at the pace so far; None while there is none."""
    return timedelta(seconds=round(seconds * left / done)) if done and seconds else None


def _to_reconcile(worker: WorkerStatus | None) -> int | None:
    """Output records still to read, while that is what a worker does."""
    if worker is None or worker.phase is not Phase.RECONCILING or worker.reconcile is None:
        return None
    return coarse_count(worker.reconcile.remaining)


def comparison_of(
    worker: WorkerStatus | None, recorded: PartitionStatus | None
) -> Comparison | None:
    """What a partition's status says of the last request: the worker's word, or what was last known of it."""
    said = worker.comparison if worker else None
    if said is None:
        return recorded.comparison if recorded else None
    return Comparison(
        request=said.request,
        full=said.full,
        done=said.done,
        records=said.records,
        added=said.added,
        removed=said.removed,
        aged_out=said.aged_out,
        unverifiable=said.unverifiable,
        error=said.error,
    )
