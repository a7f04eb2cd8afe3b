"""`kubectl dedupe restore`: restore partitions to new volumes."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import click
from rich.console import Console

from dedupe_crds.annotations import BEST_AVAILABLE, OUTPUT_TOPIC, RestoreRequest
from dedupe_crds.formatting import ranges
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Snapshot, Stream, by_partition, read_snapshot, read_stream
from dedupe_kubectl.options import STREAM, TIMEOUT, WAIT, current_clock, on_cluster, terminal
from dedupe_kubectl.restore_lines import (
    consequences,
    outcome,
    progress,
    progress_of_all,
    refusal,
)
from dedupe_kubectl.restore_requests import (
    add_requests,
    pending_requests,
    refuse_while_pending,
    without_reachable_volume,
)
from dedupe_kubectl.waiting import Clock, print_line, wait_until_done, warn_if_paused


@click.command("restore")
@STREAM
@on_cluster
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Partition number (repeatable).",
)
@click.option(
    "--all-unschedulable",
    is_flag=True,
    help="Restore each partition whose volume no node can reach, such as after the loss of a zone.",
)
@click.option(
    "--from",
    "source",
    metavar="SNAPSHOT|OutputTopic|BestAvailable",
    help="Name of a DedupeSnapshot, OutputTopic to rebuild the store from the output topic, or "
    "BestAvailable: the newest usable snapshot, else the output topic. Default with "
    "--all-unschedulable: BestAvailable.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@TIMEOUT
@WAIT
def restore_command(
    *,
    api: Api,
    namespace: str,
    stream: str,
    partitions: tuple[int, ...],
    all_unschedulable: bool,
    source: str | None,
    yes: bool,
    timeout: int,
    wait: bool,
) -> None:
    """Restore partitions to new volumes, from a snapshot or from the output topic.

    Their current volumes are retained, and the other partitions continue. The operator restores four partitions at
    the same time; the others wait.
    """
    if bool(partitions) == all_unschedulable:
        raise click.UsageError("give either --partition or --all-unschedulable")
    if source is None and not all_unschedulable:
        raise click.UsageError("give --from with the source")
    restore(
        api,
        namespace,
        Wanted(
            stream=stream,
            partitions=sorted(set(partitions)),
            source=source or BEST_AVAILABLE,
        ),
        confirm=lambda consequences: yes or _confirm(consequences),
        timeout_seconds=timeout if wait else None,
        console=terminal(),
        clock=current_clock(),
        now=datetime.now(UTC),
    )


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A requested restore.

    `source` is the name of a DedupeSnapshot, OutputTopic or BestAvailable. Without `partitions` it is of those whose
    volume no node can reach.
    """

    stream: str
    partitions: Sequence[int]
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
    """Request restores; with a timeout, wait until the partitions are ready.

    Nothing is done unless `confirm` returns true; it gets a description of what will happen.

    Raises:
        PluginError: the user may not change the stream, there is no such partition or no completed copy of it, an
            earlier restore of it has not started, the operator refused the source, or the time ran out.
    """
    stream = read_stream(api.stream(namespace, wanted.stream))
    why = ""
    if wanted.partitions:
        partitions = list(wanted.partitions)
        stream.require(partitions)
        refuse_while_pending(stream, partitions)
    else:
        partitions, why = _out_of_reach(api, stream, console)
        if not partitions:
            return
    snapshot = None
    if wanted.source not in {OUTPUT_TOPIC, BEST_AVAILABLE}:
        snapshot = read_snapshot(api.snapshot(namespace, wanted.source))
        refuse_unusable(snapshot, wanted.stream, partitions)
    if not confirm(why + consequences(stream, partitions, wanted.source, snapshot, now)):
        print_line(console, "nothing was done")
        return
    made = now.isoformat(timespec="milliseconds")
    requests = [
        RestoreRequest(request=made, partition=number, source=wanted.source)
        for number in partitions
    ]
    add_requests(api, stream, requests)
    _report(console, stream, partitions, wanted.source)
    if timeout_seconds is not None:
        _wait(api, stream, requests, timeout_seconds, console=console, clock=clock)


def _out_of_reach(api: Api, stream: Stream, console: Console) -> tuple[list[int], str]:
    """Return the partitions whose volume no node can reach, and a text that says so.

    Those whose restore waits already are left out.
    """
    pods = by_partition(api.pods(stream.namespace, stream.name))
    found = without_reachable_volume(pods)
    waiting = {request.partition for request in pending_requests(stream)}
    if left_out := sorted(found.keys() & waiting):
        print_line(console, f"{stream.title}: requested before, and waiting: {ranges(left_out)}")
    partitions = sorted(found.keys() - waiting)
    if not partitions:
        other = "other " * bool(left_out)
        print_line(console, f"{stream.title}: no {other}partition has a volume out of reach")
    messages = dict.fromkeys(found[number] for number in partitions)
    text = "".join(f"  {message}\n" for message in list(messages)[:3])
    return partitions, f"No node can reach the volumes of these partitions:\n{text}"


def _report(console: Console, stream: Stream, partitions: Sequence[int], source: str) -> None:
    names = {
        OUTPUT_TOPIC: "its output topic",
        BEST_AVAILABLE: "the best available source",
    }
    which = f"partition{'s' * (len(partitions) > 1)} {ranges(partitions)}"
    origin = names.get(source, f"snapshot {source}")
    print_line(console, f"{stream.title}: restore of {which} from {origin} requested")
    warn_if_paused(stream, console)
    if stream.suspended:
        print_line(console, "Suspended: the new volume is filled once the stream is resumed.")


def _wait(
    api: Api,
    stream: Stream,
    requests: Sequence[RestoreRequest],
    timeout_seconds: float,
    *,
    console: Console,
    clock: Clock,
) -> None:
    """Wait until each partition is ready, or its request refused; print the outcome."""
    statuses = {request.partition: stream.partition(request.partition) for request in requests}
    volumes = {
        number: status.persistent_volume_claim if status else None
        for number, status in statuses.items()
    }

    def missing() -> str:
        now = read_stream(api.stream(stream.namespace, stream.name))
        if len(requests) > 1:
            return progress_of_all(now, requests, volumes)
        (request,) = requests
        return progress(now.partition(request.partition), request, volumes[request.partition])

    wait_until_done(console, missing, timeout_seconds, clock)
    now = read_stream(api.stream(stream.namespace, stream.name))
    refused = []
    for request in requests:
        status = now.partition(request.partition)
        if why := refusal(status, request, volumes[request.partition]):
            refused.append(f"partition {request.partition} was refused: {why}")
        else:
            print_line(console, outcome(status, request))
    if refused:
        raise PluginError("; ".join(refused))


def refuse_unusable(snapshot: Snapshot, stream: str, partitions: Sequence[int]) -> None:
    """Check that a snapshot has a completed copy of each partition.

    Raises:
        PluginError: it has none; the message says why, and how to list all snapshots.
    """
    others = f"`kubectl dedupe snapshots {stream}` lists all snapshots"
    if snapshot.stream != stream:
        raise PluginError(f"{snapshot.title} is of stream {snapshot.stream}: {others}")
    if snapshot.deleting:
        raise PluginError(f"{snapshot.title} is being deleted: {others}")
    for partition in partitions:
        copy = snapshot.copy_of(partition)
        if copy is None:
            raise PluginError(f"{snapshot.title} has no copy of partition {partition}: {others}")
        if copy.phase is not SnapshotPhase.COMPLETED:
            why = f" ({copy.error})" if copy.error else ""
            raise PluginError(
                f"the copy of partition {partition} in {snapshot.title} is {copy.phase.value} and "
                f"not Completed{why}: {others}"
            )
        if copy.unreachable:
            raise PluginError(
                f"the copy of partition {partition} in {snapshot.title} can't be read where it lies "
                f"({copy.unreachable}): {others}"
            )


def _confirm(consequences: str) -> bool:
    """Ask the user at the terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError("cannot ask for confirmation without a terminal: use --yes")
    click.echo(consequences)
    return click.confirm("Continue?")
