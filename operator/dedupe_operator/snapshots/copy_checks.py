"""Check that complete copies outside of the cluster can be read where they lie.

The snapshot manager calls it once a pass. What a check finds is recorded in the DedupeSnapshot: why a copy can't be
read, and the location of one that an earlier release made, once it is seen there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.snapshots.copy_failures import CopyFailures
from dedupe_operator.snapshots.copy_jobs import OUTSIDE, job_for
from dedupe_operator.snapshots.provider import Job, Provider, ProviderError
from dedupe_operator.snapshots.resource import SnapshotWriter

_AT_ONCE: Final = 4
"""Checks of one pass: a process or a service that does not answer takes seconds each."""
_AGAIN: Final = timedelta(hours=1)
_AGAIN_AFTER_FAILURE: Final = timedelta(minutes=1)
_REQUEUE_SECONDS: Final = 15.0
# The worker can't be asked: that says nothing of the copy.
_UNKNOWN: Final = frozenset(
    {"Busy", "WorkerNotReachable", "WorkerNotRunning", "WorkerRefused", "WorkerResponseInvalid"}
)

_Copy = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Checked:
    """When a copy was checked, by which pod's credentials, and if it could be read."""

    at: datetime
    pod: str
    readable: bool

    def is_due(self, pod: str, now: datetime) -> bool:
        """Return whether to check again; another pod may have other credentials."""
        again = _AGAIN if self.readable else _AGAIN_AFTER_FAILURE
        return self.pod != pod or now - self.at >= again


class CopyChecks:
    """Checks of the copies of all streams; a new process checks all of them again."""

    def __init__(self, providers: Mapping[SnapshotProvider, Provider]) -> None:
        self._providers = providers
        self._failures = CopyFailures()
        self._checked: dict[Key, dict[_Copy, _Checked]] = {}

    def forget(self, key: Key) -> None:
        """Forget a deleted stream."""
        self._checked.pop(key, None)

    def act(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        writer: SnapshotWriter,
        snapshots: Sequence[Snapshot],
    ) -> None:
        """Check the copies that are due, a few of them. Raises KubernetesError."""
        metadata = context.stream.metadata
        key = Key(metadata.namespace, metadata.name)
        known = self._checked.get(key, {})
        self._checked[key] = checked = dict[_Copy, _Checked]()
        left = _AT_ONCE
        for snapshot in snapshots:
            changed: dict[int, PartitionSnapshot] = {}
            for entry in _complete(snapshot):
                copy, job = (snapshot.uid, entry.partition), job_for(context, snapshot, entry)
                pod, last = _uid(job), known.get(copy)
                if last:
                    checked[copy] = last
                if last and not last.is_due(pod, context.now):
                    continue
                if snapshot.status.provider is SnapshotProvider.S3 and not is_ready(job.pod):
                    continue  # its worker can't be asked yet
                if not left:
                    result.requeue_within(_REQUEUE_SECONDS)
                    continue
                left -= 1
                found = self._check(snapshot, job, context.now)
                readable = found is not None and found.unreachable is None
                checked[copy] = _Checked(context.now, pod, readable)
                if found and found != entry:
                    changed[entry.partition] = found
            if changed:
                writer.write_entries(snapshot, changed)
                _tell(result, snapshot, changed)
        for copy in known.keys() - checked.keys():
            self._failures.ended(copy)

    def _check(self, snapshot: Snapshot, job: Job, now: datetime) -> PartitionSnapshot | None:
        """Return a copy's entry as it is found, None if that is not known now."""
        assert snapshot.status.provider is not None  # noqa: S101 # it has copies
        provider = self._providers[snapshot.status.provider]
        copy, entry = (snapshot.uid, job.partition), job.entry
        try:
            found = provider.is_readable(job)
            location = entry.location or provider.location(job)
        except ProviderError as error:
            if error.reason in _UNKNOWN:
                return None
            why = self._failures.lasting(copy, error, now)
            return entry.model_copy(update={"unreachable": why}) if why else None
        self._failures.ended(copy)
        if not found:
            why = f"CopyNotFound: there is no copy {entry.handle} of it"
            return entry.model_copy(update={"unreachable": why})
        return entry.model_copy(update={"location": location, "unreachable": None})


def _complete(snapshot: Snapshot) -> Iterator[PartitionSnapshot]:
    status = snapshot.status
    if snapshot.deleting or not status.phase.is_final or status.provider not in OUTSIDE:
        return
    yield from (each for each in status.partitions if each.phase is SnapshotPhase.COMPLETED)


def _uid(job: Job) -> str:
    return str(job.pod["metadata"].get("uid")) if job.pod else ""


def _tell(
    result: ReconcileResult, snapshot: Snapshot, changed: Mapping[int, PartitionSnapshot]
) -> None:
    for partition, entry in changed.items():
        before = snapshot.entry(partition)
        if entry.unreachable and not (before and before.unreachable):
            message = (
                f"The copy of partition {partition} in {snapshot.name} can't be read and is not restored from: "
                f"{entry.unreachable}"
            )
            result.events.append(
                StreamEvent(reason="CopiesNotReadable", message=message, warning=True)
            )
