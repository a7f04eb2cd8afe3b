"""Entries of partitions in a status, as large as they are on a cluster."""

from datetime import timedelta

from dedupe_crds.status.stream import (
    Comparison,
    Failover,
    LastSnapshot,
    PartitionPhase,
    PartitionStatus,
    Restore,
    RestoreSource,
)
from tests.unit.operator.objects import NOW, STREAM


def healthy(partition: int) -> PartitionStatus:
    return PartitionStatus(
        partition=partition,
        phase=PartitionPhase.RUNNING,
        ready=True,
        node_name=f"ip-10-0-{partition % 250}-17.eu-central-1.compute.internal",
        persistent_volume_claim=f"{STREAM}-{partition}-1",
        restore=Restore(
            source=RestoreSource.NOTHING,
            reason="a new stream: its output topic was created with it",
            time=NOW,
        ),
        last_snapshot=LastSnapshot(name=f"{STREAM}-20261101-1200", time=NOW),
        window=timedelta(days=28),
        window_truncated=False,
        duplicates=120_000,
        lag_messages=1_200,
    )


def ill(partition: int) -> PartitionStatus:
    """An entry with the longest texts that the operator writes."""
    restore = Restore(
        source=RestoreSource.SNAPSHOT,
        name=f"{STREAM}-20261101-1200",
        reason="r" * 300,
        time=NOW,
        refused=["s" * 300] * 11,
        tried={f"{STREAM}-20261101-120{each}": "t" * 300 for each in range(4)},
        request="2026-11-01T12:00:00.000+00:00",
    )
    failover = Failover(node="n" * 60, reason="f" * 120, time=NOW)
    return healthy(partition).model_copy(
        update={
            "ready": False,
            "phase": PartitionPhase.FAILED,
            "message": "m" * 1024,
            "restore": restore,
            "failover": failover,
            "degraded": ["WindowShortened", "OutputTopicReplaced", "StoreDamaged"],
            "comparison": Comparison(request="r1", full=True, done=True, error="e" * 300),
        }
    )
