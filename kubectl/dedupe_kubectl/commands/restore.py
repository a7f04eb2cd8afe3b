"""`kubectl dedupe restore`: one partition gets a new volume, from a snapshot or from the output topic."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console

from dedupe_crds.annotations import OUTPUT_TOPIC, RESTORE, RestoreRequest, restore_request
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import PartitionStatus
from dedupe_kubectl.api import Api
from dedupe_kubectl.commands.snapshots import Snapshot, read_snapshot
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Stream, read_stream
from dedupe_kubectl.rows import arrived, seconds
from dedupe_kubectl.waiting import say, tell_if_paused, wait
from dedupe_kubectl.words import count, duration


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A restore as its user asked for it: `source` is the name of a DedupeSnapshot, or OutputTopic."""

    stream: str
    partition: int
    source: str


def restore(
    api: Api,
    namespace: str,
    wish: Wish,
    *,
    agreed: Callable[[str], bool],
    timeout_seconds: float | None,
    console: Console,
    now: datetime,
) -> None:
    """Have it restored, once `agreed` says yes to what will happen; with a timeout, wait until it is ready.

    Raises:
        PluginError: it is not allowed, there is no such partition or no completed copy of it, an earlier
            restore is still to begin, the operator refused the source, or it took too long.
    """
    stream = read_stream(api.stream(namespace, wish.stream))
    stream.require([wish.partition])
    refuse_while_another_waits(stream)
    snapshot = None
    if wish.source != OUTPUT_TOPIC:
        snapshot = read_snapshot(api.snapshot(namespace, wish.source))
        refuse_unusable(snapshot, wish)
    if not agreed(consequences(stream, wish, snapshot, now)):
        say(console, "nothing was done")
        return
    before = stream.partition(wish.partition)
    volume = before.persistent_volume_claim if before else None
    request = RestoreRequest(
        request=now.isoformat(timespec="milliseconds"),
        partition=wish.partition,
        source=wish.source,
    )
    annotations = {RESTORE: request.model_dump_json(by_alias=True)}
    api.patch_stream(namespace, wish.stream, {"metadata": {"annotations": annotations}})
    source = "its output topic" if snapshot is None else f"snapshot {snapshot.name}"
    say(console, f"{stream.title}: restore of partition {wish.partition} from {source} asked for")
    tell_if_paused(stream, console)
    if stream.suspended:
        say(console, "Suspended: the new volume is filled once the stream is resumed.")
    if timeout_seconds is None:
        return

    def look() -> PartitionStatus | None:
        return read_stream(api.stream(namespace, wish.stream)).partition(wish.partition)

    wait(console, lambda: progress(look(), request, volume), timeout_seconds)
    say(console, outcome(look(), request))


def refuse_while_another_waits(stream: Stream) -> None:
    """Fail if an earlier request is not answered: the annotation holds one, and this one would take its place.

    Raises:
        PluginError: it says which, and how to give it up.
    """
    earlier = restore_request(stream.annotations)
    told = stream.partition(earlier.partition) if earlier else None
    if earlier is None or told is None or _answers(told, earlier):
        return
    raise PluginError(
        f"the restore of partition {earlier.partition} from {earlier.source} that was asked for at "
        f"{earlier.request} has not begun: wait for it, or give it up with `kubectl annotate -n "
        f"{stream.namespace} dedupestream {stream.name} {RESTORE}-`"
    )


def refuse_unusable(snapshot: Snapshot, wish: Wish) -> None:
    """Fail if a snapshot has no completed copy of the partition.

    Raises:
        PluginError: it says what there is instead.
    """
    others = f"`kubectl dedupe snapshots {wish.stream}` shows all there are"
    if snapshot.stream != wish.stream:
        raise PluginError(f"{snapshot.title} is of stream {snapshot.stream}: {others}")
    if snapshot.deleting:
        raise PluginError(f"{snapshot.title} is being deleted: {others}")
    copy = snapshot.copy_of(wish.partition)
    if copy is None:
        raise PluginError(f"{snapshot.title} has no copy of partition {wish.partition}: {others}")
    if copy.phase is not SnapshotPhase.COMPLETED:
        why = f" ({copy.error})" if copy.error else ""
        raise PluginError(
            f"the copy of partition {wish.partition} in {snapshot.title} is {copy.phase.value} and "
            f"not Completed{why}: {others}"
        )


def consequences(stream: Stream, wish: Wish, snapshot: Snapshot | None, now: datetime) -> str:
    """Say what will happen, before it is agreed to."""
    partition = stream.partition(wish.partition)
    volume = (partition.persistent_volume_claim if partition else None) or "of now"
    copy = snapshot.copy_of(wish.partition) if snapshot else None
    if snapshot is None or copy is None:
        source = (
            f"rebuilt from what the output topic still holds ({stream.flow}); ids of records it no longer "
            "holds are forgotten, and the window is counted anew"
        )
    else:
        age = (
            duration((now - copy.completed).total_seconds())
            if copy.completed
            else "an unknown time"
        )
        source = (
            f"filled from snapshot {snapshot.name}, {age} old, with {count(copy.keys)} ids and a "
            f"window of {duration(seconds(copy.window))}; what came since is read from the output topic"
        )
    return (
        f"Partition {wish.partition} of {stream.title} gets a new volume, {source}.\n"
        f"Its volume {volume} is kept, and no longer used. Until the new one is ready the partition passes "
        "nothing on; the others go on."
    )


def progress(told: PartitionStatus | None, request: RestoreRequest, volume: str | None) -> str:
    """What is still missing of a restore; empty when its partition is ready again.

    `volume` is the claim the partition had before.

    Raises:
        PluginError: the operator refused the source.
    """
    if told is None or told.restore is None or not _answers(told, request):
        return "the operator has not begun it"
    if told.persistent_volume_claim == volume and told.restore.refused:
        why = "; ".join(told.restore.refused)
        raise PluginError(f"refused, and the volume {volume} stays in use: {why}")
    if told.ready:
        return ""
    what = f"partition {request.partition} is {told.phase.value}"
    if told.restoring:
        came = told.restoring
        what += f", {arrived(came.bytes, came.total_bytes, seconds(came.remaining))}"
    elif told.reconciling is not None:
        what += f", {told.reconciling:,} records to come"
    return f"{what}: {told.message}" if told.message else what


def outcome(told: PartitionStatus | None, request: RestoreRequest) -> str:
    """Say what a partition that is ready again was restored from, and what was refused."""
    restore = told.restore if told else None
    if told is None or restore is None:
        return f"partition {request.partition} is ready"
    source = f"{restore.source.value} {restore.name}" if restore.name else restore.source.value
    line = (
        f"partition {request.partition} is ready on {told.persistent_volume_claim}, restored from "
        f"{source}; its window is {duration(seconds(told.window))}"
    )
    return "\n".join([line, *(f"passed over: {reason}" for reason in restore.refused)])


def _answers(told: PartitionStatus, request: RestoreRequest) -> bool:
    return told.restore is not None and told.restore.request == request.request
