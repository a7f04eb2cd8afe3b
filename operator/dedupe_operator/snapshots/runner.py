"""Run snapshots: one at a time for each stream, several partitions side by side.

Each step is recorded in the DedupeSnapshot's status before the next: the intent, the location, the worker's
checkpoint with its metadata, the provider's copy with its handle, the copy found usable. An operator that was killed
anywhere continues from the status, and every step may run twice. The snapshot manager calls it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pydantic import ValidationError

from dedupe_crds.formatting import listed
from dedupe_crds.spec.snapshots import SnapshotProvider, Snapshots
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase, SnapshotStatus
from dedupe_crds.status.worker import CheckpointStatus
from dedupe_operator import metrics
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide.copy_slots import may_start
from dedupe_operator.decide.rounding import rounded_size
from dedupe_operator.decide.snapshot_policy import Snapshot, next_snapshot
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.snapshots.copy_jobs import OUTSIDE, job_for
from dedupe_operator.snapshots.metadata import with_checkpoint
from dedupe_operator.snapshots.provider import (
    Job,
    Provider,
    ProviderError,
    ProviderFailed,
    refused_by_worker,
)
from dedupe_operator.snapshots.resource import SnapshotWriter
from dedupe_operator.worker_client import WorkerClient, WorkerRefused

_MOST_PARTITIONS: Final = 1500
"""Partitions of one snapshot at most. Its object has an entry of 600 to 900 bytes for each, and may have 1.5 MiB."""
_TIMED_OUT: Final = "DeadlineExceeded"


class SnapshotRunner:
    """Runs the snapshots of all streams."""

    def __init__(
        self, providers: Mapping[SnapshotProvider, Provider], workers: WorkerClient
    ) -> None:
        self._providers = providers
        self._workers = workers

    def run(
        self, context: ReconcileContext, result: ReconcileResult, writer: SnapshotWriter
    ) -> bool:
        """Continue the next snapshot; return whether it is still unfinished.

        Raises KubernetesError.
        """
        stream = context.stream.metadata.name
        ours = [each for each in context.observed.snapshots if each.stream == stream]
        snapshot = next_snapshot(ours)
        if snapshot is None or context.stream.spec.suspend:
            return False
        run = _Run(context, result, writer, snapshot)
        if context.stream.spec.snapshots is None:
            run.fail("NoProvider", "spec.snapshots of the stream names no provider: set it")
        elif snapshot.status.phase is SnapshotPhase.PENDING:
            self._begin(run, context.stream.spec.snapshots)
        if run.status.phase is SnapshotPhase.RUNNING and context.stream.spec.snapshots:
            self._continue(run, context.stream.spec.snapshots)
        return not run.status.phase.is_final

    def _begin(self, run: "_Run", wanted: Snapshots) -> None:
        known = run.context.partitions
        # A partition that is being added has no store yet that is worth a copy.
        settled = tuple(each for each in known if each not in run.context.joining)
        wanted_partitions = run.snapshot.partitions or settled
        if unknown := sorted(set(wanted_partitions) - set(known)):
            run.fail("NoSuchPartition", f"the stream has no partition {unknown[0]}")
            return
        if not wanted_partitions:
            return  # the topics are not known yet
        if len(wanted_partitions) > _MOST_PARTITIONS:
            most = f"a snapshot has at most {_MOST_PARTITIONS} partitions, and these are {len(wanted_partitions)}"
            run.fail("TooManyPartitions", f"{most}: make several, each with spec.partitions")
            return
        if wanted.provider in OUTSIDE:
            run.writer.hold(run.snapshot)
        entries = [
            PartitionSnapshot(partition=partition, phase=SnapshotPhase.PENDING)
            for partition in sorted(wanted_partitions)
        ]
        run.write(
            phase=SnapshotPhase.RUNNING,
            provider=wanted.provider,
            started=run.context.now,
            progress=f"0/{len(entries)}",
            partitions=entries,
        )
        run.add_event("SnapshotStarted", f"Snapshot {run.snapshot.name} was started.")

    def _continue(self, run: "_Run", wanted: Snapshots) -> None:
        unfinished = [entry for entry in run.status.partitions if not entry.phase.is_final]
        running = [entry for entry in unfinished if entry.phase is SnapshotPhase.RUNNING]
        for entry in running:
            self._copy(run, entry, wanted)
        pods = run.context.observed.pods
        for entry in unfinished:
            if entry.phase is not SnapshotPhase.PENDING:
                continue
            timed_out = run.status.reason == _TIMED_OUT
            if timed_out or may_start(entry, run.status.partitions, pods, wanted.parallelism):
                self._copy(run, entry, wanted)
        if all(entry.phase.is_final for entry in run.status.partitions):
            run.finish()

    def _copy(self, run: "_Run", entry: PartitionSnapshot, wanted: Snapshots) -> bool:
        """Continue one partition's copy as far as possible now; return whether it ended."""
        if entry.phase is SnapshotPhase.PENDING and run.status.reason == _TIMED_OUT:
            run.update_entry(
                entry,
                phase=SnapshotPhase.FAILED,
                error="not started: another partition exceeded the deadline",
            )
            return True
        if entry.phase is SnapshotPhase.PENDING:
            entry = run.update_entry(entry, phase=SnapshotPhase.RUNNING, started=run.context.now)
        try:
            done = self._try_to_copy(run, entry)
        except ProviderError as error:
            if not error.retriable:
                run.update_entry(entry, error.reason, phase=SnapshotPhase.FAILED, error=str(error))
                return True
            entry = run.update_entry(run.entry(entry), error=str(error))
            done = False
        if not done and run.context.now - (entry.started or run.context.now) > wanted.deadline:
            last = run.entry(entry).error
            why = f"not complete in time (spec.snapshots.deadline){f': {last}' if last else ''}"
            run.update_entry(run.entry(entry), _TIMED_OUT, phase=SnapshotPhase.FAILED, error=why)
            return True
        return done

    def _try_to_copy(self, run: "_Run", entry: PartitionSnapshot) -> bool:
        assert run.status.provider is not None  # noqa: S101 # recorded when the snapshot started
        provider = self._providers[run.status.provider]
        if entry.location is None and (location := provider.location(run.job(entry))):
            entry = run.update_entry(entry, location=location)
        if not provider.takes_checkpoint and entry.output_position is None:
            entry = run.replace_entry(with_checkpoint(entry, self._checkpoint(run.job(entry))))
        if entry.handle is None:
            entry = run.update_entry(entry, handle=provider.start(run.job(entry)))
        copy = provider.status(run.job(entry))
        entry = copy.entry or entry
        if not copy.usable:
            run.update_entry(entry, error=None)
            return False
        run.update_entry(
            entry,
            phase=SnapshotPhase.COMPLETED,
            completed=run.context.now,
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
            raise refused_by_worker(error) from error
        except ValidationError as error:
            message = f"the worker's response is not valid: {error}"
            raise ProviderFailed("WorkerResponseInvalid", message) from error


@dataclass(slots=True)
class _Run:
    """One snapshot in one pass; each change is written before the next step."""

    context: ReconcileContext
    result: ReconcileResult
    writer: SnapshotWriter
    snapshot: Snapshot

    @property
    def status(self) -> SnapshotStatus:
        return self.snapshot.status

    def job(self, entry: PartitionSnapshot) -> Job:
        return job_for(self.context, self.snapshot, entry)

    def entry(self, known: PartitionSnapshot) -> PartitionSnapshot:
        """Return a partition's present entry."""
        return self.snapshot.entry(known.partition) or known

    def write(self, **changes: object) -> None:
        status = self.status.model_copy(update=changes)
        if status != self.status:
            self.writer.write(self.snapshot, status)
            self.snapshot = replace(self.snapshot, status=status)

    def update_entry(
        self, entry: PartitionSnapshot, reason: str | None = None, **changes: object
    ) -> PartitionSnapshot:
        """Change fields of a partition's entry; `reason` is why it failed."""
        return self.replace_entry(entry.model_copy(update=changes), reason)

    def replace_entry(
        self, entry: PartitionSnapshot, reason: str | None = None
    ) -> PartitionSnapshot:
        entries = [
            entry if each.partition == entry.partition else each for each in self.status.partitions
        ]
        done = sum(each.phase is SnapshotPhase.COMPLETED for each in entries)
        self.write(
            partitions=entries,
            progress=f"{done}/{len(entries)}",
            reason=self.status.reason or reason,
        )
        return entry

    def fail(self, reason: str, message: str) -> None:
        now = self.context.now
        self.write(phase=SnapshotPhase.FAILED, reason=reason, message=message, completed=now)
        self._count("failed")
        self.add_event("SnapshotFailed", f"Snapshot {self.snapshot.name}: {message}.", warning=True)

    def finish(self) -> None:
        entries = self.status.partitions
        failed = [entry for entry in entries if entry.phase is SnapshotPhase.FAILED]
        if failed:
            errors = [f"partition {entry.partition}: {entry.error}" for entry in failed]
            self.fail(self.status.reason or "PartitionsFailed", listed(errors, most=3))
            return
        size = rounded_size(sum(entry.bytes or 0 for entry in entries))
        self.write(phase=SnapshotPhase.COMPLETED, completed=self.context.now, size=size)
        self._count("completed")
        message = f"Snapshot {self.snapshot.name} is complete: {len(entries)} partitions, {size}."
        self.add_event("SnapshotCompleted", message)

    def add_event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.result.events.append(StreamEvent(reason=reason, message=message, warning=warning))

    def _count(self, result: str) -> None:
        metadata = self.context.stream.metadata
        metrics.SNAPSHOTS.labels(metadata.namespace, metadata.name, result).inc()
