"""Create a stream's snapshots by schedule; run, prune and judge them.

The reconciler calls `act` once a pass. `runner` runs the snapshots, `decide.snapshot_policy` decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dedupe_crds.spec.snapshots import SnapshotProvider, Snapshots
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import LastSnapshot
from dedupe_operator import metrics
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.snapshot_policy import (
    InvalidSchedule,
    Snapshot,
    due_time,
    judge,
    judge_copies,
    newest_usable,
    scheduled_name,
    to_prune,
)
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.decide.verdict import Verdict
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.resources import SNAPSHOTS
from dedupe_operator.snapshots.copy_checks import CopyChecks
from dedupe_operator.snapshots.copy_jobs import is_unheld
from dedupe_operator.snapshots.left_behind import LeftBehindWatch
from dedupe_operator.snapshots.provider import Provider
from dedupe_operator.snapshots.removal import CopyRemover
from dedupe_operator.snapshots.resource import SnapshotWriter, read_snapshots
from dedupe_operator.snapshots.runner import SnapshotRunner
from dedupe_operator.worker_client import WorkerClient

_REQUEUE_SECONDS: Final = 2.0
_REMOVE_RETRY_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsView:
    """The snapshot part of the status; `verdict` is None without spec.snapshots."""

    verdict: Verdict | None = None
    last_schedule_time: datetime | None = None
    last: Mapping[int, LastSnapshot] = field(default_factory=dict)


class SnapshotManager:
    """Manages the snapshots of all streams."""

    def __init__(
        self,
        api: KubernetesApi,
        providers: Mapping[SnapshotProvider, Provider],
        workers: WorkerClient,
    ) -> None:
        self._api = api
        self._runner = SnapshotRunner(providers, workers)
        self._remover = CopyRemover(providers)
        self._checks = CopyChecks(providers)
        self._left_behind = LeftBehindWatch(providers)

    def act(self, context: ReconcileContext, result: ReconcileResult) -> SnapshotsView:
        """Create, continue, delete and prune what is due; return the status part."""
        writer = SnapshotWriter(self._api, context.stream.metadata.namespace)
        processed = context.recorded.last_schedule_time
        # What frees room first. A refusal of one step stops no other.
        for snapshot in _ours(context):
            with result.reporting("snapshots: "):
                self._keep(context, result, writer, snapshot)
        self._prune(context, result, writer)
        with result.reporting("snapshots: "):
            self._checks.act(context, result, writer, _ours(context))
        with result.reporting("snapshots: "):
            self._left_behind.act(context, result, _ours(context))
        with result.reporting("snapshots: "):
            if self._runner.run(context, result, writer):
                result.requeue_within(_REQUEUE_SECONDS)
        with result.reporting("snapshots: "):
            processed = self._schedule(context, writer)
        return self._view(context, processed)

    def _keep(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        writer: SnapshotWriter,
        snapshot: Snapshot,
    ) -> None:
        """Remove a deleted snapshot's copies; hold and protect one that stays."""
        if snapshot.deleting:
            if not self._remover.remove(context, result, writer, snapshot):
                result.requeue_within(_REMOVE_RETRY_SECONDS)
        elif is_unheld(snapshot):
            writer.hold(snapshot)  # it was restored from a backup
        elif snapshot.prunable:
            writer.keep_from_pruning(snapshot)

    def release_all(self, namespace: str, stream: str) -> None:
        """Release the deleted snapshots of a deleted stream.

        Nothing can delete their copies any more.

        Raises KubernetesError.
        """
        self._checks.forget(Key(namespace, stream))
        self._left_behind.forget(Key(namespace, stream))
        writer = SnapshotWriter(self._api, namespace)
        for snapshot in read_snapshots(self._api.find(SNAPSHOTS, namespace)):
            if snapshot.stream == stream and snapshot.deleting and snapshot.holds_copies:
                writer.release(snapshot)

    @staticmethod
    def _schedule(context: ReconcileContext, writer: SnapshotWriter) -> datetime | None:
        """Create the snapshot that is due by the schedule; return the last processed time."""
        wanted, last = context.stream.spec.snapshots, context.recorded.last_schedule_time
        if wanted is None or wanted.schedule is None or context.stream.spec.suspend:
            return last
        try:
            due = due_time(wanted.schedule, last=last, now=context.now)
        except InvalidSchedule:
            return last  # the condition SnapshotsHealthy reports it
        if due is None:
            return last or context.now  # a schedule begins when it is first seen
        writer.create_scheduled(context.stream, scheduled_name(context.stream.metadata.name, due))
        return due

    @staticmethod
    def _prune(context: ReconcileContext, result: ReconcileResult, writer: SnapshotWriter) -> None:
        wanted = context.stream.spec.snapshots
        if wanted is None:
            return
        for snapshot in to_prune(_ours(context), wanted, context.now):
            with result.reporting("snapshots: "):
                writer.delete(snapshot)
                message = f"Snapshot {snapshot.name} is pruned: {_why_pruned(snapshot, wanted)}."
                result.events.append(StreamEvent(reason="SnapshotPruned", message=message))

    @staticmethod
    def _view(context: ReconcileContext, processed: datetime | None) -> SnapshotsView:
        ours = _ours(context)
        wanted = context.stream.spec.snapshots
        metadata = context.stream.metadata
        last: dict[int, LastSnapshot] = {}
        for partition in context.partitions:
            newest = newest_usable(ours, partition)
            entry = newest.entry(partition) if newest else None
            if newest and entry and entry.completed:
                last[partition] = LastSnapshot(name=newest.name, time=entry.completed)
        labels = (metadata.namespace, metadata.name)
        counting = set(context.partitions) - context.joining
        if wanted and last and last.keys() >= counting:
            oldest = min(snapshot.time for snapshot in last.values())
            metrics.SNAPSHOT_COMPLETED.labels(*labels).set(oldest.timestamp())
        else:
            metrics.forget_snapshots(*labels)
        return SnapshotsView(
            verdict=judge(ours, wanted, context.now, counting) if wanted else judge_copies(ours),
            last_schedule_time=processed,
            last=last,
        )


def _ours(context: ReconcileContext) -> list[Snapshot]:
    name = context.stream.metadata.name
    return [each for each in context.observed.snapshots if each.stream == name]


def _why_pruned(snapshot: Snapshot, wanted: Snapshots) -> str:
    if snapshot.status.phase is SnapshotPhase.FAILED:
        return "it failed, and newer ones have too, or it is older than spec.snapshots.keepFor"
    return f"spec.snapshots retains the newest {wanted.keep}, and none older than keepFor"
