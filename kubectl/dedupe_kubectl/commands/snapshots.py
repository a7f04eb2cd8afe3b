"""`kubectl dedupe snapshot` and `snapshots`: make a snapshot, and list them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from dedupe_crds.formatting import size
from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.status.snapshot import KIND, SnapshotPhase
from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Object, Snapshot, read_snapshot, read_stream
from dedupe_kubectl.options import (
    OUTPUT,
    PARTITIONS,
    STREAM,
    TIMEOUT,
    WAIT,
    current_clock,
    on_cluster,
    terminal,
)
from dedupe_kubectl.tables import as_json, print_table, snapshots_table
from dedupe_kubectl.waiting import Clock, print_line, wait_until_done, warn_if_paused


@click.command("snapshot")
@STREAM
@on_cluster
@PARTITIONS
@click.option("--name", help="Name of the snapshot. Default: the stream's name with the time.")
@TIMEOUT
@WAIT
def snapshot_command(
    *,
    api: Api,
    namespace: str,
    stream: str,
    partitions: tuple[int, ...],
    name: str | None,
    timeout: int,
    wait: bool,
) -> None:
    """Make a snapshot of a stream now.

    Its provider is configured in spec.snapshots. A snapshot that is made by hand is never pruned: delete it
    with `kubectl delete dedupesnapshot NAME`.
    """
    take(
        api,
        namespace,
        stream,
        name=name or new_name(stream, datetime.now(UTC)),
        partitions=partitions,
        timeout_seconds=timeout if wait else None,
        console=terminal(),
        clock=current_clock(),
    )


@click.command("snapshots")
@click.argument("stream", required=False)
@on_cluster
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the snapshots of all namespaces.")
@OUTPUT
def snapshots_command(
    *, api: Api, namespace: str, stream: str | None, all_namespaces: bool, output: str | None
) -> None:
    """Show the snapshots of a stream, or of all streams, newest first."""
    if stream and all_namespaces:
        raise click.UsageError("a stream is in one namespace: use -n instead of -A")
    console = terminal()
    found = find_snapshots(api, None if all_namespaces else namespace, stream)
    if output:
        console.out(as_json({"items": [snapshot_json(each) for each in found]}), highlight=False)
    elif found:
        drawn = snapshots_table(found, datetime.now(UTC), with_namespace=all_namespaces)
        print_table(console, drawn)
    else:
        whose = f"of {stream} " if stream else ""
        where = "all namespaces" if all_namespaces else f"namespace {namespace}"
        console.print(escape(f"No snapshots {whose}in {where}."), soft_wrap=True)


def find_snapshots(api: Api, namespace: str | None, stream: str | None) -> list[Snapshot]:
    """Return the snapshots of a stream, of a namespace or of all, newest first.

    Raises:
        PluginError: they cannot be listed, or there is no such stream and no snapshot of it.
    """
    found = [read_snapshot(document) for document in api.snapshots(namespace)]
    if stream and namespace:
        found = [each for each in found if each.stream == stream]
        if not found:
            api.stream(namespace, stream)  # fails for a misspelt name
    return sorted(found, key=lambda each: (each.created, each.name), reverse=True)


def new_name(stream: str, now: datetime) -> str:
    """Name a snapshot after its stream and the time.

    >>> new_name("orders", datetime(2026, 11, 21, 18, 0, 5, tzinfo=UTC))
    'orders-20261121-180005'
    """
    return f"{stream}-{now.astimezone(UTC):%Y%m%d-%H%M%S}"


def take(
    api: Api,
    namespace: str,
    stream: str,
    *,
    name: str,
    partitions: Sequence[int],
    timeout_seconds: float | None,
    console: Console,
    clock: Clock,
) -> None:
    """Create a DedupeSnapshot; with a timeout, wait until it is complete.

    Raises:
        PluginError: the user may not create it, the stream has no snapshot provider or no such partition, or the
            snapshot failed or was not complete in time.
    """
    found = read_stream(api.stream(namespace, stream))
    if found.snapshots is None:
        raise PluginError(
            f"{found.title} has no spec.snapshots: configure a provider there, such as "
            "{provider: CSI}, and apply the manifest again"
        )
    found.require(partitions)
    spec: Object = {"streamRef": {"name": stream}}
    if partitions:
        spec["partitions"] = sorted(set(partitions))
    metadata = {"name": name, "namespace": namespace}
    wanted = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    api.create_snapshot(namespace, wanted)
    print_line(console, f"snapshot {namespace}/{name} of {stream} requested")
    warn_if_paused(found, console)
    if found.suspended:
        print_line(console, "Suspended: its workers make the snapshot once the stream is resumed.")
    if timeout_seconds is None:
        return

    def missing() -> str:
        return progress(read_snapshot(api.snapshot(namespace, name)))

    wait_until_done(console, missing, timeout_seconds, clock)
    print_line(console, outcome(read_snapshot(api.snapshot(namespace, name))))


def progress(snapshot: Snapshot) -> str:
    """Describe what is still missing of a snapshot; empty if its phase is final."""
    status = snapshot.status
    if status.phase.is_final:
        return ""
    if status.phase is SnapshotPhase.PENDING:
        return f"{snapshot.name} is Pending: the operator has not started it"
    done = f", {status.progress} partitions" if status.progress else ""
    reason = f"; {snapshot.why_failed}" if snapshot.why_failed else ""
    return f"{snapshot.name} is {snapshot.phase}{done}{reason}"


def outcome(snapshot: Snapshot) -> str:
    """Describe what a final snapshot holds.

    Raises:
        PluginError: it failed.
    """
    if snapshot.status.phase is SnapshotPhase.FAILED:
        raise PluginError(f"snapshot {snapshot.title} failed: {snapshot.why_failed}")
    parts = [
        f"{snapshot.status.progress} partitions" if snapshot.status.progress else "",
        f"{snapshot.keys:,} ids" if snapshot.keys is not None else "",
        size(snapshot.size) if snapshot.size is not None else "",
    ]
    return f"snapshot {snapshot.title} is complete: {', '.join(filter(None, parts))}"


def snapshot_json(snapshot: Snapshot) -> Mapping[str, Any]:
    """Return a snapshot as JSON."""
    copies = snapshot.status.model_dump(mode="json", by_alias=True, exclude_none=True)["partitions"]
    return {
        "namespace": snapshot.namespace,
        "name": snapshot.name,
        "stream": snapshot.stream,
        "phase": snapshot.phase,
        "provider": snapshot.status.provider,
        "progress": snapshot.status.progress,
        "bytes": snapshot.size,
        "keys": snapshot.keys,
        "windowSeconds": snapshot.window.total_seconds() if snapshot.window else None,
        "created": snapshot.created.isoformat(),
        "completed": snapshot.status.completed.isoformat() if snapshot.status.completed else None,
        "whyFailed": snapshot.why_failed or None,
        "partitions": copies,
    }
