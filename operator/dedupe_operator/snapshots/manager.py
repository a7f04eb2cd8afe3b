"""A stream's snapshots: made by its schedule, taken, pruned, judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dedupe_crds.spec.store import Snapshots
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import LastSnapshot
from dedupe_operator import metrics
from dedupe_operator.controller.context import Findings, Look
from dedupe_operator.decide.diagnosis import with_advice
from dedupe_operator.decide.snapshot_policy import (
    InvalidSchedule,
    Snapshot,
    Verdict,
    is_due,
    judge,
    newest_usable,
    scheduled_name,
    to_prune,
)
from dedupe_operator.decide.stream_status import Notice
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import SNAPSHOTS, KubernetesApi
from dedupe_operator.snapshots.resource import SnapshotRecords, read_snapshots
from dedupe_operator.snapshots.runner import Taker, is_unheld

_LOOK_AGAIN_SECONDS: Final = 2.0
_REMOVE_AGAIN_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsView:
    """What the stream's status says of its snapshots. `verdict` is None where none are wanted."""

    verdict: Verdict | None = None
    last_schedule_time: datetime | None = None
    last: Mapping[int, LastSnapshot] = field(default_factory=dict)


class Keeper:
    """Looks after the snapshots of any stream."""

    def __init__(self, api: KubernetesApi, taker: Taker) -> None:
        self._api = api
        self._taker = taker

    def act(self, look: Look, findings: Findings) -> SnapshotsView:
        """Do what is due now."""
        records = SnapshotRecords(self._api, look.stream.metadata.namespace)
        seen_to = look.recorded.last_schedule_time
        try:
            seen_to = self._schedule(look, records)
            for snapshot in _ours(look):
                if snapshot.deleting and not self._taker.remove(look, findings, records, snapshot):
                    findings.look_again_within(_REMOVE_AGAIN_SECONDS)
                elif not snapshot.deleting and is_unheld(snapshot):
                    records.hold(snapshot)  # it was brought back from a backup
            if self._taker.take(look, findings, records):
                findings.look_again_within(_LOOK_AGAIN_SECONDS)
            self._prune(look, findings, records)
        except KubernetesError as error:
            findings.stream_problems.append(with_advice(error.reason, f"snapshots: {error}"))
        return self._view(look, seen_to)

    def release_all(self, namespace: str, stream: str) -> None:
        """Let go of the deleted snapshots of a stream that is gone: nobody is left who could delete their copies.

        Raises KubernetesError.
        """
        records = SnapshotRecords(self._api, namespace)
        for snapshot in read_snapshots(self._api.find(SNAPSHOTS, namespace)):
            if snapshot.stream == stream and snapshot.deleting and snapshot.holds_copies:
                records.release(snapshot)

    @staticmethod
    def _schedule(look: Look, records: SnapshotRecords) -> datetime | None:
        """Make the snapshot of the last time of the schedule; returns the time that was seen to."""
        wanted, last = look.stream.spec.snapshots, look.recorded.last_schedule_time
        if wanted is None or wanted.schedule is None or look.stream.spec.suspend:
            return last
        try:
            due = is_due(wanted.schedule, last=last, now=look.now)
        except InvalidSchedule:
            return last  # the condition SnapshotsHealthy says so
        if due is None:
            return last or look.now  # a schedule begins when it is first seen
        records.create_scheduled(look.stream, scheduled_name(look.stream.metadata.name, due))
        return due

    @staticmethod
    def _prune(look: Look, findings: Findings, records: SnapshotRecords) -> None:
        wanted = look.stream.spec.snapshots
        if wanted is None:
            return
        for snapshot in to_prune(_ours(look), wanted, look.now):
            records.delete(snapshot)
            message = f"Snapshot {snapshot.name} is deleted: {_why_pruned(snapshot, wanted)}."
            findings.notices.append(Notice(reason="SnapshotPruned", message=message))

    @staticmethod
    def _view(look: Look, seen_to: datetime | None) -> SnapshotsView:
        ours = _ours(look)
        wanted = look.stream.spec.snapshots
        metadata = look.stream.metadata
        last: dict[int, LastSnapshot] = {}
        for partition in look.partitions:
            newest = newest_usable(ours, partition)
            entry = newest.entry(partition) if newest else None
            if newest and entry and entry.completed:
                last[partition] = LastSnapshot(name=newest.name, time=entry.completed)
        labels = (metadata.namespace, metadata.name)
        if wanted and last and len(last) == len(look.partitions):
            oldest = min(one.time for one in last.values())
            metrics.SNAPSHOT_COMPLETED.labels(*labels).set(oldest.timestamp())
        else:
            metrics.forget_snapshots(*labels)
        return SnapshotsView(
            verdict=judge(ours, wanted, look.now) if wanted else None,
            last_schedule_time=seen_to,
            last=last,
        )


def _ours(look: Look) -> list[Snapshot]:
    name = look.stream.metadata.name
    return [one for one in look.observed.snapshots if one.stream == name]


def _why_pruned(snapshot: Snapshot, wanted: Snapshots) -> str:
    if snapshot.status.phase is SnapshotPhase.FAILED:
        return "it failed, and newer ones have too, or it is older than spec.snapshots.keepFor"
    return f"spec.snapshots keeps the newest {wanted.keep}, and none older than keepFor"
