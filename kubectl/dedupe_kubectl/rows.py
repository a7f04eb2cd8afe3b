"""What the tables say of streams and of partitions. Values in, values out."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.status.stream import ConditionStatus, PartitionStatus
from dedupe_crds.status.worker import DownloadStatus, Phase, WorkerStatus
from dedupe_kubectl.objects import Object, Stream
from dedupe_kubectl.stream_view import Look
from dedupe_kubectl.words import duration, size

_RATE_SECONDS: Final = 10.0
_UNWELL: Final = (
    ("Degraded", "True"),
    ("WindowHealthy", "False"),
    ("SnapshotsHealthy", "False"),
    ("Ready", "False"),
)


@dataclass(frozen=True, kw_only=True)
class PartitionRow:
    """One partition. Figures are the worker's own if `live`, else the operator's, rounded."""

    partition: int
    phase: str
    ready: bool
    pod: str | None
    node: str | None
    volume: str | None
    restored_from: str | None
    records_per_second: float | None
    consumed: int | None
    duplicates: int | None
    lag_messages: int | None
    window_seconds: float | None
    last_snapshot: datetime | None
    live: bool
    note: str


class Rates:
    """How fast each partition is read, over the last 10 s."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def observe(self, workers: Mapping[int, WorkerStatus], now: float) -> dict[int, float]:
        """Return the records per second of the partitions that were seen before, at `now` seconds."""
        for silent in self._seen.keys() - workers.keys():
            del self._seen[silent]
        rates = {
            partition: self._rate(partition, worker.counts.consumed, now)
            for partition, worker in workers.items()
        }
        return {partition: rate for partition, rate in rates.items() if rate is not None}

    def _rate(self, partition: int, consumed: int, now: float) -> float | None:
        seen = self._seen.setdefault(partition, deque())
        if seen and consumed < seen[-1][1]:
            seen.clear()  # a new process counts from nothing
        seen.append((now, consumed))
        while now - seen[0][0] > _RATE_SECONDS and len(seen) > 2:
            seen.popleft()
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first) if last > first else None


def stream_state(stream: Stream) -> str:
    """Say in one word how a stream is: its user's wish first, then what keeps it from it."""
    wishes = {
        "Deleting": stream.deleting is not None,
        "Paused": stream.paused,
        "Suspended": stream.suspended,
        "NotSeen": not stream.status.conditions,
    }
    if wish := next((word for word, holds in wishes.items() if holds), None):
        return wish
    if degraded := stream.condition("Degraded", "True"):
        return degraded.reason
    if not stream.observed:
        return "Changing"
    ready = stream.condition("Ready")
    if ready is None:
        return "Unknown"
    return "Running" if ready.status is ConditionStatus.TRUE else ready.reason


def stream_note(stream: Stream) -> str:
    """Say what a user should know of a stream that is not as it should be."""
    if not stream.status.conditions:
        return "the operator has not seen it yet"
    for type_, bad in _UNWELL:
        found = stream.condition(type_, bad)
        if found and not (type_ == "Ready" and stream.suspended):
            return found.message
    return ""


def seconds(time: timedelta | None) -> float | None:
    """A time as a number, if it is known."""
    return None if time is None else time.total_seconds()


def partition_rows(look: Look, rates: Mapping[int, float]) -> list[PartitionRow]:
    """Say how each partition is."""
    return [
        _partition_row(
            partition,
            look.stream.partition(partition)
            or PartitionStatus.model_validate({"partition": partition, "phase": "Provisioning"}),
            look.pods.get(partition),
            look.workers.get(partition),
            rates.get(partition),
        )
        for partition in look.partitions
    ]


def _partition_row(
    partition: int,
    told: PartitionStatus,
    pod: Object | None,
    worker: WorkerStatus | None,
    rate: float | None,
) -> PartitionRow:
    return PartitionRow(
        partition=partition,
        phase=worker.phase.value if worker else told.phase.value,
        ready=worker.ready if worker else told.ready,
        pod=pod["metadata"]["name"] if pod else None,
        node=(pod.get("spec") or {}).get("nodeName") if pod else told.node_name,
        volume=told.persistent_volume_claim,
        restored_from=_restored_from(told),
        records_per_second=rate,
        consumed=worker.counts.consumed if worker else None,
        duplicates=worker.counts.duplicates if worker else told.duplicates,
        lag_messages=worker.input.lag_messages if worker else told.lag_messages,
        window_seconds=worker.window.seconds if worker else seconds(told.window),
        last_snapshot=told.last_snapshot.time if told.last_snapshot else None,
        live=worker is not None,
        note=_note(told, worker),
    )


def _restored_from(told: PartitionStatus) -> str | None:
    if told.restore is None:
        return None
    named = told.restore.name
    shown = named if named and named != told.persistent_volume_claim else None
    return f"{told.restore.source.value} {shown}" if shown else told.restore.source.value


def _note(told: PartitionStatus, worker: WorkerStatus | None) -> str:
    if worker is None:
        return told.message or _on_its_way(told)
    if worker.reason:
        return f"{worker.reason}: {worker.message}" if worker.message else worker.reason
    if worker.phase is Phase.RESTORING and (download := worker.download):
        return arrived(download.bytes, download.total_bytes, _time_left(download))
    if worker.reconcile and not worker.ready and worker.reconcile.remaining:
        done = worker.reconcile
        pace = done.seconds / done.records if done.records else None
        return to_reconcile(done.remaining, pace and pace * done.remaining)
    return "" if worker.window.healthy else "the window is shorter than alertBelow"


def _on_its_way(told: PartitionStatus) -> str:
    """How far a store is that its worker says nothing of, as the operator last saw."""
    if told.restoring:
        restoring = told.restoring
        return arrived(restoring.bytes, restoring.total_bytes, seconds(restoring.remaining))
    if not told.reconciling:
        return ""
    return to_reconcile(told.reconciling, seconds(told.reconcile_remaining))


def to_reconcile(records: int, seconds_left: float | None) -> str:
    """Say how far a reconcile is.

    >>> to_reconcile(1200, 75), to_reconcile(1200, None)
    ('1,200 to reconcile, 1m15s to come', '1,200 to reconcile')
    """
    left = f", {duration(seconds_left)} to come" if seconds_left else ""
    return f"{records:,} to reconcile{left}"


def arrived(part: int, whole: int, seconds_left: float | None) -> str:
    """Say how far a store is on its way.

    >>> arrived(512, 2048, 75), arrived(512, 2048, None)
    ('512 of 2Ki restored, 1m15s to come', '512 of 2Ki restored')
    """
    shown = f"{size(part)} of {size(whole)} restored"
    return shown if seconds_left is None else f"{shown}, {duration(seconds_left)} to come"


def _time_left(download: DownloadStatus) -> float | None:
    if not download.bytes:
        return None
    return download.seconds * (download.total_bytes - download.bytes) / download.bytes
