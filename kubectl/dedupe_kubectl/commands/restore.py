"""`kubectl dedupe restore`: restore a partition to a new volume."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import click
from rich.console import Console

from dedupe_crds.annotations import OUTPUT_TOPIC, RESTORE, RestoreRequest, restore_request
from dedupe_crds.formatting import count, duration
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import PartitionStatus
from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Snapshot, Stream, read_snapshot, read_stream
from dedupe_kubectl.options import STREAM, TIMEOUT, WAIT, current_clock, on_cluster, terminal
from dedupe_kubectl.table_rows import reconcile_progress, restore_progress, seconds
from dedupe_kubectl.waiting import Clock, print_line, wait_until_done, warn_if_paused


@click.command("restore")
@STREAM
@on_cluster
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), required=True, help="Partition number."
)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="SNAPSHOT|OutputTopic",
    help="Name of a DedupeSnapshot, or OutputTopic to rebuild the store from the output topic.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@TIMEOUT
@WAIT
def restore_command(
    *,
    api: Api,
    namespace: str,
    stream: str,
    partition: int,
    source: str,
    yes: bool,
    timeout: int,
    wait: bool,
) -> None:
    """Restore a partition to a new volume, from a snapshot or from the output topic.

    Its current volume is retained, and the other partitions continue.
    """
    restore(
        api,
        namespace,
        Wanted(stream=stream, partition=partition, source=source),
        confirm=lambda consequences: yes or _confirm(consequences),
        timeout_seconds=timeout if wait else None,
        console=terminal(),
        clock=current_clock(),
        now=datetime.now(UTC),
    )


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A requested restore. `source` is the name of a DedupeSnapshot, or OutputTopic."""

    stream: str
    partition: int
    source: str


def restore(
    api: Api,
    namespace: str,
    wanted: Wanted,
    *,
    confirm: Callable[[str], bool],
    timeout_seconds: float | None,
    console: Console,
    clock: Clock,
    now: datetime,
) -> None:
    """Request a restore; with a timeout, wait until the partition is ready.

    Nothing is done unless `confirm` returns true; it gets a description of what will happen.

    Raises:
        PluginError: the user may not change the stream, there is no such partition or no completed copy of it, an
            earlier restore has not started, the operator refused the source, or the time ran out.
    """
    stream = read_stream(api.stream(namespace, wanted.stream))
    stream.require([wanted.partition])
    refuse_while_another_is_pending(stream)
    snapshot = None
    if wanted.source != OUTPUT_TOPIC:
        snapshot = read_snapshot(api.snapshot(namespace, wanted.source))
        refuse_unusable(snapshot, wanted)
    if not confirm(consequences(stream, wanted, snapshot, now)):
        print_line(console, "nothing was done")
        return
    before = stream.partition(wanted.partition)
    volume = before.persistent_volume_claim if before else None
    request = RestoreRequest(
        request=now.isoformat(timespec="milliseconds"),
        partition=wanted.partition,
        source=wanted.source,
    )
    annotations = {RESTORE: request.model_dump_json(by_alias=True)}
    api.patch_stream(namespace, wanted.stream, {"metadata": {"annotations": annotations}})
    source = "its output topic" if snapshot is None else f"snapshot {snapshot.name}"
    print_line(
        console, f"{stream.title}: restore of partition {wanted.partition} from {source} requested"
    )
    warn_if_paused(stream, console)
    if stream.suspended:
        print_line(console, "Suspended: the new volume is filled once the stream is resumed.")
    if timeout_seconds is None:
        return

    def fetch() -> PartitionStatus | None:
        return read_stream(api.stream(namespace, wanted.stream)).partition(wanted.partition)

    wait_until_done(console, lambda: progress(fetch(), request, volume), timeout_seconds, clock)
    print_line(console, outcome(fetch(), request))


def refuse_while_another_is_pending(stream: Stream) -> None:
    """Check that no earlier request is pending: the annotation holds one request only.

    Raises:
        PluginError: one is pending; the message says which, and how to cancel it.
    """
    earlier = restore_request(stream.annotations)
    status = stream.partition(earlier.partition) if earlier else None
    if earlier is None or status is None or _answers(status, earlier):
        return
    raise PluginError(
        f"the restore of partition {earlier.partition} from {earlier.source} that was requested at "
        f"{earlier.request} has not started: wait for it, or cancel it with `kubectl annotate -n "
        f"{stream.namespace} dedupestream {stream.name} {RESTORE}-`"
    )


def refuse_unusable(snapshot: Snapshot, wanted: Wanted) -> None:
    """Check that a snapshot has a completed copy of the partition.

    Raises:
        PluginError: it has none; the message says why, and how to list all snapshots.
    """
    others = f"`kubectl dedupe snapshots {wanted.stream}` lists all snapshots"
    if snapshot.stream != wanted.stream:
        raise PluginError(f"{snapshot.title} is of stream {snapshot.stream}: {others}")
    if snapshot.deleting:
        raise PluginError(f"{snapshot.title} is being deleted: {others}")
    copy = snapshot.copy_of(wanted.partition)
    if copy is None:
        raise PluginError(f"{snapshot.title} has no copy of partition {wanted.partition}: {others}")
    if copy.phase is not SnapshotPhase.COMPLETED:
        why = f" ({copy.error})" if copy.error else ""
        raise PluginError(
            f"the copy of partition {wanted.partition} in {snapshot.title} is {copy.phase.value} and "
            f"not Completed{why}: {others}"
        )


def consequences(stream: Stream, wanted: Wanted, snapshot: Snapshot | None, now: datetime) -> str:
    """Describe what a restore will do, for the confirmation."""
    partition = stream.partition(wanted.partition)
    volume = (partition.persistent_volume_claim if partition else None) or "in use"
    copy = snapshot.copy_of(wanted.partition) if snapshot else None
    if snapshot is None or copy is None:
        source = (
            f"rebuilt from what the output topic still holds ({stream.flow}); ids of records it no longer "
            "holds are forgotten, and the window starts again at 0"
        )
    else:
        age = (
            duration((now - copy.completed).total_seconds())
            if copy.completed
            else "an unknown time"
        )
        source = (
            f"filled from snapshot {snapshot.name}, {age} old, with {count(copy.keys)} ids and a "
            f"window of {duration(seconds(copy.window))}; newer ids are read from the output topic"
        )
    return (
        f"Partition {wanted.partition} of {stream.title} gets a new volume, {source}.\n"
        f"Its volume {volume} is retained, but no longer used. The partition passes no messages until the new "
        "volume is ready; the other partitions continue."
    )


def progress(status: PartitionStatus | None, request: RestoreRequest, volume: str | None) -> str:
    """Describe what is still missing of a restore; empty once its partition is ready.

    `volume` is the claim the partition had before.

    Raises:
        PluginError: the operator refused the source.
    """
    if status is None or status.restore is None or not _answers(status, request):
        return "the operator has not started it"
    if status.persistent_volume_claim == volume and status.restore.refused:
        why = "; ".join(status.restore.refused)
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


def _confirm(consequences: str) -> bool:
    """Ask the user at the terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError("cannot ask for confirmation without a terminal: use --yes")
    click.echo(consequences)
    return click.confirm("Continue?")
