"""Lines of `restore`: the consequences, the progress and the outcome.

Invariant: pure functions, without I/O.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from dedupe_crds.annotations import OUTPUT_TOPIC, RestoreRequest
from dedupe_crds.formatting import count, duration, ranges
from dedupe_crds.status.stream import PartitionStatus
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Snapshot, Stream
from dedupe_kubectl.table_rows import reconcile_progress, restore_progress, seconds

_BAR_CELLS: Final = 20
_SHOWN: Final = 4
NOT_STARTED: Final = "the operator has not started it"


def consequences(
    stream: Stream,
    partitions: Sequence[int],
    source: str,
    snapshot: Snapshot | None,
    now: datetime,
) -> str:
    """Describe what a restore will do, for the confirmation."""
    volumes = [
        status.persistent_volume_claim or "in use"
        for number in partitions
        if (status := stream.partition(number))
    ]
    one = len(partitions) == 1
    who = "Partition" if one else f"{len(partitions)} partitions,"
    what, volume = ("gets a new volume", "volume") if one else ("get new volumes", "volumes")
    return (
        f"{who} {ranges(partitions)} of {stream.title} {what}, "
        f"{_source(stream, partitions, source, snapshot, now)}.\n"
        f"{'Its' if one else 'Their'} {volume} {', '.join(volumes[:_SHOWN])}"
        f"{f' and {len(volumes) - _SHOWN} more' if len(volumes) > _SHOWN else ''} "
        f"{'is' if one else 'are'} retained, but no longer used. "
        f"{'The partition passes' if one else 'They pass'} no messages until the new "
        f"{volume} {'is' if one else 'are'} ready; the other partitions continue."
    )


def _source(
    stream: Stream,
    partitions: Sequence[int],
    source: str,
    snapshot: Snapshot | None,
    now: datetime,
) -> str:
    if snapshot is None and source != OUTPUT_TOPIC:
        return (
            "each filled from the newest snapshot that is usable, or else rebuilt from what the output "
            f"topic still holds ({stream.flow})"
        )
    copies = [copy for number in partitions if snapshot and (copy := snapshot.copy_of(number))]
    if snapshot is None or not copies:
        return (
            f"rebuilt from what the output topic still holds ({stream.flow}); ids of records it no longer "
            "holds are forgotten, and the window starts again at 0"
        )
    completed = min((copy.completed for copy in copies if copy.completed), default=None)
    age = duration((now - completed).total_seconds()) if completed else "an unknown time"
    keys = [copy.keys for copy in copies if copy.keys is not None]
    windows = [copy.window for copy in copies if copy.window]
    return (
        f"filled from snapshot {snapshot.name}, {age} old, with "
        f"{count(sum(keys) if keys else None)} ids and a window of "
        f"{duration(seconds(min(windows, default=None)))}; newer ids are read from the output topic"
    )


def progress(status: PartitionStatus | None, request: RestoreRequest, volume: str | None) -> str:
    """Describe what is still missing of a restore; empty once its partition is ready.

    `volume` is the claim the partition had before.

    Raises:
        PluginError: the operator refused the source.
    """
    if status is None or status.restore is None or not _answers(status, request):
        return NOT_STARTED
    if why := refusal(status, request, volume):
        raise PluginError(f"refused, and the volume {volume} stays in use: {why}")
    if status.ready:
        return ""
    what = f"partition {request.partition} is {status.phase.value}"
    if transfer := status.restoring:
        left = seconds(transfer.remaining)
        what += f", {restore_progress(transfer.bytes, transfer.total_bytes, left)}"
    elif status.reconciling is not None:
        what += f", {reconcile_progress(status.reconciling, None)}"
    return f"{what}: {status.message}" if status.message else what


def progress_of_all(
    stream: Stream, requests: Sequence[RestoreRequest], volumes: Mapping[int, str | None]
) -> str:
    """Describe what is still missing of several restores.

    It is empty once each partition is ready, or its request refused. `volumes` are the claims that the partitions had
    before.
    """
    missing: dict[int, str] = {}
    for request in requests:
        status, volume = stream.partition(request.partition), volumes.get(request.partition)
        if not refusal(status, request, volume) and (what := progress(status, request, volume)):
            missing[request.partition] = what
    if not missing:
        return ""
    done = len(requests) - len(missing)
    waiting = [number for number, what in missing.items() if what == NOT_STARTED]
    shown = [what for what in missing.values() if what != NOT_STARTED]
    more = f"; and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    filled = _BAR_CELLS * done // len(requests)
    bar = f"[{'#' * filled}{'-' * (_BAR_CELLS - filled)}]"
    parts = [f"{bar} {done} of {len(requests)} done"]
    parts += ["; ".join(shown[:_SHOWN]) + more] if shown else []
    parts += [f"waiting: {ranges(waiting)}"] if waiting else []
    return "; ".join(parts)


def refusal(status: PartitionStatus | None, request: RestoreRequest, volume: str | None) -> str:
    """Return why the operator refused a request, empty if it did not."""
    if status is None or status.restore is None or not _answers(status, request):
        return ""
    kept = status.persistent_volume_claim == volume
    return "; ".join(status.restore.refused) if kept else ""


def outcome(status: PartitionStatus | None, request: RestoreRequest) -> str:
    """Describe the source of a restored partition, and the refused sources."""
    restore = status.restore if status else None
    if status is None or restore is None:
        return f"partition {request.partition} is ready"
    source = f"{restore.source.value} {restore.name}" if restore.name else restore.source.value
    line = (
        f"partition {request.partition} is ready on {status.persistent_volume_claim}, restored from "
        f"{source}; its window is {duration(seconds(status.window))}"
    )
    return "\n".join([line, *(f"skipped: {reason}" for reason in restore.refused)])


def _answers(status: PartitionStatus, request: RestoreRequest) -> bool:
    return status.restore is not None and status.restore.request == request.request
