"""Remove the copies of a deleted DedupeSnapshot where they lie, then release it.

The snapshot manager calls it. Invariant: a DedupeSnapshot is released once all of its copies are deleted. If one can't
be, its entry says why, and the object stays until it can, or until a person removes the finalizer.
"""

from collections.abc import Mapping
from typing import Final

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.snapshots.copy_failures import CopyFailures
from dedupe_operator.snapshots.copy_jobs import OUTSIDE, job_for
from dedupe_operator.snapshots.provider import Job, Provider, ProviderError
from dedupe_operator.snapshots.resource import SnapshotWriter

_MOST_FAILURES: Final = 4
"""Copies of one snapshot that fail in one pass: each may take seconds."""


class CopyRemover:
    """Remover of the copies of all streams."""

    def __init__(self, providers: Mapping[SnapshotProvider, Provider]) -> None:
        self._providers = providers
        self._failures = CopyFailures()

    def remove(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        writer: SnapshotWriter,
        snapshot: Snapshot,
    ) -> bool:
        """Delete the copies of a deleted snapshot, then release it; return success.

        Raises KubernetesError.
        """
        if not snapshot.holds_copies:
            return True  # the cluster's garbage collector deletes its VolumeSnapshots
        failed: dict[int, ProviderError] = {}
        for entry in snapshot.status.partitions:
            if entry.started is None or len(failed) == _MOST_FAILURES:
                continue
            try:
                self._remove_copy(snapshot, job_for(context, snapshot, entry))
            except ProviderError as error:
                failed[entry.partition] = error
        if not failed:
            writer.release(snapshot)
            return True
        self._report(context, result, writer, snapshot, failed)
        return False

    def _remove_copy(self, snapshot: Snapshot, job: Job) -> None:
        """Delete a copy where it lies. Raises ProviderError."""
        kind = snapshot.status.provider
        if kind is None:
            return
        if kind in OUTSIDE and job.entry.location is None:
            _check_is_here(self._providers[kind], job)
        self._providers[kind].remove(job)
        self._failures.ended((snapshot.uid, job.partition))

    def _report(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        writer: SnapshotWriter,
        snapshot: Snapshot,
        failed: Mapping[int, ProviderError],
    ) -> None:
        """Record why copies can't be deleted, once that lasts."""
        changed: dict[int, PartitionSnapshot] = {}
        for entry in snapshot.status.partitions:
            error = failed.get(entry.partition)
            copy = (snapshot.uid, entry.partition)
            why = self._failures.lasting(copy, error, context.now) if error else None
            if why is None or why == entry.unreachable:
                continue
            changed[entry.partition] = entry.model_copy(update={"unreachable": why})
            message = f"The copy of partition {entry.partition} in {snapshot.name} can't be deleted: {why}"
            event = StreamEvent(reason="SnapshotCopyNotDeleted", message=message, warning=True)
            result.events.append(event)
        if changed:
            writer.write_entries(snapshot, changed)


def _check_is_here(provider: Provider, job: Job) -> None:
    """Check that a copy without a recorded location, of an earlier release, is here.

    Raises ProviderError: it may lie where the stream's settings pointed before.
    """
    if job.entry.phase is SnapshotPhase.COMPLETED and not provider.is_readable(job):
        message = (
            f"there is no copy {job.entry.handle} where the stream's settings point now: it is gone, or lies where "
            "they pointed before"
        )
        raise ProviderError("CopyNotFound", message)
