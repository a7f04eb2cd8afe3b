"""Makes snapshots: one at a time for each stream, one partition after another, each step on record before it is taken.

For each partition: the intent → the worker's checkpoint, and its stamp → the provider's copy, and its handle → the copy
found usable. An operator that is killed anywhere goes on from what the DedupeSnapshot's status says, and every step may
be taken twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pydantic import ValidationError

from dedupe_crds.spec.store import SnapshotProvider, Snapshots
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase, SnapshotStatus
from dedupe_crds.status.worker import CheckpointStatus
from dedupe_operator import metrics
from dedupe_operator.controller.context import Findings, Look
from dedupe_operator.decide.rounding import rounded_size
from dedupe_operator.decide.snapshot_policy import Snapshot, next_up
from dedupe_operator.decide.stream_status import Notice
from dedupe_operator.kubernetes.api import CLAIMS
from dedupe_operator.snapshots.metadata import stamped
from dedupe_operator.snapshots.provider import Job, Provider, ProviderError
from dedupe_operator.snapshots.resource import SnapshotRecords
from dedupe_operator.worker_client import WorkerRefused, Workers

_OUTSIDE: Final = frozenset({SnapshotProvider.EBS, SnapshotProvider.S3})
"""Those whose copies no garbage collector of the cluster reaches."""
_TIMED_OUT: Final = "DeadlineExceeded"


class Taker:
    """Takes the snapshots of any stream."""

    def __init__(self, providers: Mapping[SnapshotProvider, Provider], workers: Workers) -> None:
        self._providers = providers
        self._workers = workers

    def take(self, look: Look, findings: Findings, records: SnapshotRecords) -> bool:
        """Go on with the snapshot that is next; whether there is one. Raises KubernetesError."""
        ours = [one for one in look.observed.snapshots if one.stream == look.stream.metadata.name]
        snapshot = next_up(ours)
        if snapshot is None or look.stream.spec.suspend:
            return False
        run = _Run(look, findings, records, snapshot)
        if look.stream.spec.snapshots is None:
            run.fail("NoProvider", "spec.snapshots of the stream names no provider: set it")
        elif snapshot.status.phase is SnapshotPhase.PENDING:
            self._begin(run, look.stream.spec.snapshots)
        if run.status.phase is SnapshotPhase.RUNNING and look.stream.spec.snapshots:
            self._go_on(run, look.stream.spec.snapshots)
        return not run.status.phase.is_final

    def _begin(self, run: "_Run", wanted: Snapshots) -> None:
        known = range(len(run.look.partitions))
        asked = run.snapshot.partitions or tuple(known)
        if unknown := sorted(set(asked) - set(known)):
            run.fail("NoSuchPartition", f"the stream has no partition {unknown[0]}")
            return
        if not asked:
            return  # the topics are not known yet
        if wanted.provider in _OUTSIDE:
            run.records.hold(run.snapshot)
        entries = [
            PartitionSnapshot(partition=partition, phase=SnapshotPhase.PENDING)
            for partition in sorted(asked)
        ]
        run.write(
            phase=SnapshotPhase.RUNNING,
            provider=wanted.provider,
            started=run.look.now,
            progress=f"0/{len(entries)}",
            partitions=entries,
        )
        run.tell("SnapshotStarted", f"Snapshot {run.snapshot.name} was begun.")

    def _go_on(self, run: "_Run", wanted: Snapshots) -> None:
        left = [one for one in run.status.partitions if not one.phase.is_final]
        for entry in left:
            # One that can't get on, such as a partition whose worker is down, does not keep the others.
            if not self._copy(run, entry, wanted) and run.entry(entry).error is None:
                return
        if all(one.phase.is_final for one in run.status.partitions):
            run.finish()

    def _copy(self, run: "_Run", entry: PartitionSnapshot, wanted: Snapshots) -> bool:
        """Take one partition's copy as far as it goes now; whether it is done with."""
        if entry.phase is SnapshotPhase.PENDING and run.status.reason == _TIMED_OUT:
            run.note(entry, phase=SnapshotPhase.FAILED, error="not begun: another was given up")
            return True
        if entry.phase is SnapshotPhase.PENDING:
            entry = run.note(entry, phase=SnapshotPhase.RUNNING, started=run.look.now)
        try:
            done = self._try_to_copy(run, entry)
        except ProviderError as error:
            if error.final:
                run.note(entry, error.reason, phase=SnapshotPhase.FAILED, error=str(error))
                return True
            entry = run.note(run.entry(entry), error=str(error))
            done = False
        if not done and run.look.now - (entry.started or run.look.now) > wanted.deadline:
            last = run.entry(entry).error
            why = f"not complete in time (spec.snapshots.deadline){f': {last}' if last else ''}"
            run.note(run.entry(entry), _TIMED_OUT, phase=SnapshotPhase.FAILED, error=why)
            return True
        return done

    def _try_to_copy(self, run: "_Run", entry: PartitionSnapshot) -> bool:
        assert run.status.provider is not None  # noqa: S101 # recorded when it was begun
        provider = self._providers[run.status.provider]
        if not provider.takes_checkpoint and entry.output_position is None:
            entry = run.replace(stamped(entry, self._checkpoint(run.job(entry))))
        if entry.handle is None:
            entry = run.note(entry, handle=provider.start(run.job(entry)))
        copy = provider.look(run.job(entry))
        entry = copy.entry or entry
        if not copy.usable:
            run.note(entry, error=None)
            return False
        run.note(
            entry,
            phase=SnapshotPhase.COMPLETED,
            completed=run.look.now,
            bytes=entry.bytes if copy.bytes is None else copy.bytes,
            volume_size=copy.volume_size,
            error=None,
        )
        return True

    def _checkpoint(self, job: Job) -> CheckpointStatus:
        try:
            answer = self._workers.post(job.pod, "/checkpoint", {}, job.admin_token)
            return CheckpointStatus.model_validate(answer)
        except WorkerRefused as error:
            raise ProviderError(error.reason, str(error), final=error.final) from error
        except ValidationError as error:
            message = f"the worker's answer can't be read: {error}"
            raise ProviderError("WorkerNotUnderstood", message, final=True) from error

    def remove(
        self, look: Look, findings: Findings, records: SnapshotRecords, snapshot: Snapshot
    ) -> bool:
        """Delete the copies of a snapshot that is being deleted, then let it go; whether that is done.

        Raises KubernetesError.
        """
        if not snapshot.holds_copies:
            return True  # the cluster's garbage collector takes its VolumeSnapshots
        run = _Run(look, findings, records, snapshot)
        for entry in snapshot.status.partitions:
            if entry.started is None or snapshot.status.provider is None:
                continue
            try:
                self._providers[snapshot.status.provider].remove(run.job(entry))
            except ProviderError as error:
                if not error.final:
                    return False
                message = f"The copy of partition {entry.partition} in {snapshot.name} stays where it is: {error}"
                run.tell("SnapshotCopyLeft", message, warning=True)
        records.release(snapshot)
        return True


@dataclass(slots=True)
class _Run:
    """One snapshot in one look: its status as it changes, each change written before what follows from it."""

    look: Look
    findings: Findings
    records: SnapshotRecords
    snapshot: Snapshot

    @property
    def status(self) -> SnapshotStatus:
        return self.snapshot.status

    def job(self, entry: PartitionSnapshot) -> Job:
        return job_for(self.look, self.snapshot, entry)

    def entry(self, known: PartitionSnapshot) -> PartitionSnapshot:
        """A partition's entry as it is by now."""
        return self.snapshot.entry(known.partition) or known

    def write(self, **changes: object) -> None:
        status = self.status.model_copy(update=changes)
        if status != self.status:
            self.records.write(self.snapshot, status)
            self.snapshot = replace(self.snapshot, status=status)

    def note(
        self, entry: PartitionSnapshot, reason: str | None = None, **changes: object
    ) -> PartitionSnapshot:
        """Change a partition's entry; `reason` says why it failed."""
        return self.replace(entry.model_copy(update=changes), reason)

    def replace(self, entry: PartitionSnapshot, reason: str | None = None) -> PartitionSnapshot:
        entries = [
            entry if one.partition == entry.partition else one for one in self.status.partitions
        ]
        done = sum(one.phase is SnapshotPhase.COMPLETED for one in entries)
        self.write(
            partitions=entries,
            progress=f"{done}/{len(entries)}",
            reason=self.status.reason or reason,
        )
        return entry

    def fail(self, reason: str, message: str) -> None:
        now = self.look.now
        self.write(phase=SnapshotPhase.FAILED, reason=reason, message=message, completed=now)
        self._count("failed")
        self.tell("SnapshotFailed", f"Snapshot {self.snapshot.name}: {message}.", warning=True)

    def finish(self) -> None:
        entries = self.status.partitions
        failed = [one for one in entries if one.phase is SnapshotPhase.FAILED]
        if failed:
            told = "; ".join(f"partition {one.partition}: {one.error}" for one in failed[:3])
            more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
            self.fail(self.status.reason or "PartitionsFailed", told + more)
            return
        size = rounded_size(sum(one.bytes or 0 for one in entries))
        self.write(phase=SnapshotPhase.COMPLETED, completed=self.look.now, size=size)
        self._count("completed")
        message = f"Snapshot {self.snapshot.name} is complete: {len(entries)} partitions, {size}."
        self.tell("SnapshotCompleted", message)

    def tell(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.findings.notices.append(Notice(reason=reason, message=message, warning=warning))

    def _count(self, result: str) -> None:
        metadata = self.look.stream.metadata
        metrics.SNAPSHOTS.labels(metadata.namespace, metadata.name, result).inc()


def is_unheld(snapshot: Snapshot) -> bool:
    """Whether a snapshot has copies outside of the cluster, and would go without them."""
    return snapshot.status.provider in _OUTSIDE and not snapshot.holds_copies


def job_for(look: Look, snapshot: Snapshot, entry: PartitionSnapshot) -> Job:
    """What a provider is told of one partition's copy."""
    partition = entry.partition
    recorded = look.recorded_partition(partition)
    name = recorded.persistent_volume_claim if recorded else None
    return Job(
        stream=look.stream,
        snapshot=snapshot.name,
        snapshot_uid=snapshot.uid,
        partition=partition,
        entry=entry,
        claim=look.observed.children.get((CLAIMS.kind, name)) if name else None,
        pod=look.observed.pods.get(partition),
        admin_token=look.admin_token,
    )
