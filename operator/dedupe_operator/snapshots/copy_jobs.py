"""Describe a partition's copy to its provider.

The snapshot runner, the checks and removal of copies and the volume manager call it.
"""

from typing import Final

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.snapshot import PartitionSnapshot
from dedupe_operator.controller.context import ReconcileContext
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.kubernetes.resources import CLAIMS
from dedupe_operator.snapshots.provider import Job

OUTSIDE: Final = frozenset({SnapshotProvider.EBS, SnapshotProvider.S3})
"""Providers whose copies the cluster's garbage collector can't delete."""


def is_unheld(snapshot: Snapshot) -> bool:
    """Return whether a snapshot has copies outside of the cluster but no finalizer."""
    return snapshot.status.provider in OUTSIDE and not snapshot.holds_copies


def job_for(context: ReconcileContext, snapshot: Snapshot, entry: PartitionSnapshot) -> Job:
    """Return the job of one partition's copy, for its provider."""
    partition = entry.partition
    recorded = context.recorded_partition(partition)
    name = recorded.persistent_volume_claim if recorded else None
    return Job(
        stream=context.stream,
        snapshot=snapshot.name,
        snapshot_uid=snapshot.uid,
        partition=partition,
        entry=entry,
        claim=context.observed.children.get((CLAIMS.kind, name)) if name else None,
        pod=context.observed.pods.get(partition),
        admin_token=context.admin_token,
    )
