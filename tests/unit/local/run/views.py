"""Worker statuses and views for tests, with defaults for irrelevant fields."""

from datetime import UTC, datetime

from dedupe_crds.status.worker import (
    Counts,
    InputStatus,
    OutputStatus,
    Phase,
    ReconcileStatus,
    WindowStatus,
    WorkerStatus,
)
from dedupe_local.run.worker_process import WorkerView


def status(
    next_offset: int = 0,
    *,
    partition: int = 0,
    phase: Phase = Phase.RUNNING,
    to_reconcile: int | None = None,
    lag_messages: int | None = 0,
    reason: str | None = None,
    message: str | None = None,
    window_seconds: float = 0.0,
) -> WorkerStatus:
    reconcile = None
    if to_reconcile is not None:
        reconcile = ReconcileStatus(reason="R", records=0, remaining=to_reconcile, seconds=0)
    return WorkerStatus(
        stream="default/s",
        partition=partition,
        phase=phase,
        ready=phase is Phase.RUNNING,
        reason=reason,
        message=message,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        uptime_seconds=1.0,
        input=InputStatus(topic="in", next_offset=next_offset, lag_messages=lag_messages),
        output=OutputStatus(topic="out"),
        counts=Counts(),
        window=WindowStatus(
            seconds=window_seconds, bytes=0, keys=0, generations=1, truncated=False, healthy=True
        ),
        reconcile=reconcile,
    )


def view(partition: int = 0, **known: object) -> WorkerView:
    return WorkerView(partition=partition, **{"pid": 1, **known})  # type: ignore[arg-type] # tests name what they mean
