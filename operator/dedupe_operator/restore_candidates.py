"""List the copies that a partition may be restored from.

The volume manager calls it.
"""

from datetime import datetime

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase
from dedupe_operator.controller.context import ReconcileContext
from dedupe_operator.decide.restore_source import Candidate
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.decide.volume_claims import RestoreNeed


def restore_candidates(
    context: ReconcileContext, partition: int, need: RestoreNeed
) -> list[Candidate]:
    """Return the copies to choose from: the requested, or all complete ones."""
    wanted = need.request.snapshot if need.request else None
    return [
        Candidate(
            name=snapshot.name,
            stream=snapshot.stream,
            provider=snapshot.status.provider or SnapshotProvider.CSI,
            entry=snapshot.entry(partition),
            gone="it is being deleted" if snapshot.deleting else None,
            failed=need.tried.get(snapshot.name),
        )
        for snapshot in context.observed.snapshots
        if (snapshot.name == wanted if wanted else _has_copy(context, snapshot, partition))
        and not _is_of_later(snapshot.entry(partition), need.made_before)
    ]


def _is_of_later(entry: PartitionSnapshot | None, made_before: datetime | None) -> bool:
    """Return whether a copy may be of the store that is rebuilt."""
    began = entry.started or entry.completed if entry else None
    return made_before is not None and began is not None and began >= made_before


def _has_copy(context: ReconcileContext, snapshot: Snapshot, partition: int) -> bool:
    entry = snapshot.entry(partition)
    ours = snapshot.stream == context.stream.metadata.name
    return ours and entry is not None and entry.phase is SnapshotPhase.COMPLETED
