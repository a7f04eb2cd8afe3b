"""The contents of the tables: the state of a stream, and a row for each partition.

`status` and `restore` call it. Invariant: pure functions, without I/O; `Rates` gets the time as an argument.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.formatting import duration, size
from dedupe_crds.status.health import first_problem
from dedupe_crds.status.stream import AddedPartition, ConditionStatus, PartitionStatus
from dedupe_crds.status.worker import DownloadStatus, Phase, WorkerStatus
from dedupe_kubectl.objects import Object, Stream
from dedupe_kubectl.stream_view import StreamView

_RATE_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class PartitionRow:
    """One partition.

    Figures come from its worker if `live`, else from the stream's status, where they are rounded.
    """

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
    store_bytes: int | None
    last_snapshot: datetime | None
    live: bool
    note: str


class Rates:
    """The rate at which each partition is read, over the last 10 s."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def observe(self, workers: Mapping[int, WorkerStatus], now: float) -> dict[int, float]:
        """Return the records per second of each partition that was observed before.

        `now` is in seconds.
        """
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
            seen.clear()  # a new process counts from 0
        seen.append((now, consumed))
        while now - seen[0][0] > _RATE_SECONDS and len(seen) > 2:
            seen.popleft()
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first) if last > first else None


def stream_state(stream: Stream) -> str:
    """Return the state of a stream in a word.

    What its user requested comes first, then a problem.
    """
    requested = {
        "Deleting": stream.deleting is not None,
        "Paused": stream.paused,
        "Suspended": stream.suspended,
        "NotSeen": not stream.status.conditions,
    }
    if state := next((word for word, holds in requested.items() if holds), None):
        return state
    if degraded := stream.condition("Degraded", "True"):
        return degraded.reason
    if not stream.observed:
        return "Changing"
    ready = stream.condition("Ready")
    if ready is None:
        return "Unknown"
    return "Running" if ready.status is ConditionStatus.TRUE else ready.reason


def stream_note(stream: Stream) -> str:
    """Return the message of the most important unhealthy condition, or an empty text."""
    if not stream.status.conditions:
        return "the operator has not processed it yet"
    problem = first_problem(stream.status.conditions)
    if problem is None or (problem.type == "Ready" and stream.suspended):
        return ""
    return problem.message


def seconds(time: timedelta | None) -> float | None:
    """Return a time in seconds, if it is known."""
    return None if time is None else time.total_seconds()


def partition_rows(view: StreamView, rates: Mapping[int, float]) -> list[PartitionRow]:
    """Return the row of each partition, then those that were added and wait."""
    served = [
        _partition_row(
            partition,
            view.stream.partition(partition)
            or PartitionStatus.model_validate({"partition": partition, "phase": "Provisioning"}),
            view.pods.get(partition),
            view.workers.get(partition),
            rates.get(partition),
        )
        for partition in view.partitions
    ]
    return [*served, *map(_added_row, view.stream.status.added_partitions or ())]


def _added_row(added: AddedPartition) -> PartitionRow:
    """Return the row of a partition that was added to the input, and has no worker."""
    return PartitionRow(
        partition=added.partition,
        phase="Added",
        ready=False,
        pod=None,
        node=None,
        volume=None,
        restored_from=None,
        records_per_second=0.0,
        consumed=0,
        duplicates=0,
        lag_messages=added.lag_messages,
        window_seconds=None,
        store_bytes=None,
        last_snapshot=None,
        live=False,
        note="it waits, as spec.input.addedPartitions says",
    )


def _partition_row(
    partition: int,
    status: PartitionStatus,
    pod: Object | None,
    worker: WorkerStatus | None,
    rate: float | None,
) -> PartitionRow:
    return PartitionRow(
        partition=partition,
        phase=worker.phase.value if worker else status.phase.value,
        ready=worker.ready if worker else status.ready,
        pod=pod["metadata"]["name"] if pod else None,
        node=(pod.get("spec") or {}).get("nodeName") if pod else status.node_name,
        volume=status.persistent_volume_claim,
        restored_from=_restored_from(status),
        records_per_second=rate,
        consumed=worker.counts.consumed if worker else None,
        duplicates=worker.counts.duplicates if worker else status.duplicates,
        lag_messages=worker.input.lag_messages if worker else status.lag_messages,
        window_seconds=worker.window.seconds if worker else seconds(status.window),
        store_bytes=worker.window.bytes if worker else None,
        last_snapshot=status.last_snapshot.time if status.last_snapshot else None,
        live=worker is not None,
        note=_note(status, worker),
    )


def _restored_from(status: PartitionStatus) -> str | None:
    if status.restore is None:
        return None
    name, source = status.restore.name, status.restore.source.value
    return f"{source} {name}" if name and name != status.persistent_volume_claim else source


def _note(status: PartitionStatus, worker: WorkerStatus | None) -> str:
    if worker is None:
        return status.message or _progress(status)
    if worker.reason:
        return f"{worker.reason}: {worker.message}" if worker.message else worker.reason
    if worker.phase is Phase.RESTORING and (download := worker.download):
        return restore_progress(download.bytes, download.total_bytes, _time_left(download))
    if worker.reconcile and not worker.ready and worker.reconcile.remaining:
        done = worker.reconcile
        pace = done.seconds / done.records if done.records else None
        return reconcile_progress(done.remaining, pace and pace * done.remaining)
    return "" if worker.window.healthy else "the window is shorter than alertBelow"


def _progress(status: PartitionStatus) -> str:
    """Return the progress of a restore or a reconcile by the stream's status."""
    if restoring := status.restoring:
        left = seconds(restoring.remaining)
        return restore_progress(restoring.bytes, restoring.total_bytes, left)
    if not status.reconciling:
        return ""
    return reconcile_progress(status.reconciling, seconds(status.reconcile_remaining))


def reconcile_progress(records: int, seconds_left: float | None) -> str:
    """Write how many output records are still to read.

    >>> reconcile_progress(1200, 75), reconcile_progress(1200, None)
    ('1,200 records to reconcile, 1m15s left', '1,200 records to reconcile')
    """
    left = f", {duration(seconds_left)} left" if seconds_left else ""
    return f"{records:,} records to reconcile{left}"


def restore_progress(part: int, whole: int, seconds_left: float | None) -> str:
    """Write how many bytes of a store are restored.

    >>> restore_progress(512, 2048, 75), restore_progress(512, 2048, None)
    ('512 of 2Ki restored, 1m15s left', '512 of 2Ki restored')
    """
    shown = f"{size(part)} of {size(whole)} restored"
    return shown if seconds_left is None else f"{shown}, {duration(seconds_left)} left"


def _time_left(download: DownloadStatus) -> float | None:
    if not download.bytes:
        return None
    return download.seconds * (download.total_bytes - download.bytes) / download.bytes
