"""`kubectl dedupe snapshot` and `snapshots`: making a snapshot, and all there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.status.snapshot import KIND, PartitionSnapshot, SnapshotPhase, SnapshotStatus
from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Object, read_status, read_stream
from dedupe_kubectl.waiting import say, tell_if_paused, wait
from dedupe_kubectl.words import size


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A DedupeSnapshot of `stream`."""

    namespace: str
    name: str
    stream: str
    created: datetime
    deleting: bool
    status: SnapshotStatus

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def phase(self) -> str:
        """Its phase, or that it is being deleted."""
        return "Deleting" if self.deleting else self.status.phase.value

    @property
    def keys(self) -> int | None:
        """Ids in all its copies, as far as they are known."""
        return _sum([one.keys for one in self.status.partitions])

    @property
    def size(self) -> int | None:
        """Bytes of all its copies, as far as they are known."""
        return _sum([one.bytes for one in self.status.partitions])

    @property
    def window(self) -> timedelta | None:
        """The shortest window of its copies."""
        return min((one.window for one in self.status.partitions if one.window), default=None)

    @property
    def why_failed(self) -> str:
        """Why it failed, or why copies of it did; empty if none has."""
        if self.status.message or self.status.reason:
            return ": ".join(filter(None, [self.status.reason, self.status.message]))
        errors = {one.error: one.partition for one in self.status.partitions if one.error}
        return "; ".join(f"partition {number}: {error}" for error, number in errors.items())

    def copy_of(self, partition: int) -> PartitionSnapshot | None:
        """The copy of one partition."""
        return next((one for one in self.status.partitions if one.partition == partition), None)


def read_snapshot(document: Object) -> Snapshot:
    """Read a DedupeSnapshot.

    Raises:
        PluginError: its status is of a release this plugin does not know.
    """
    metadata = document["metadata"]
    return Snapshot(
        namespace=metadata["namespace"],
        name=metadata["name"],
        stream=str(document["spec"]["streamRef"]["name"]),
        created=datetime.fromisoformat(metadata["creationTimestamp"]),
        deleting=bool(metadata.get("deletionTimestamp")),
        status=read_status(document, SnapshotStatus),
    )


def find_snapshots(api: Api, namespace: str, stream: str | None) -> list[Snapshot]:
    """All snapshots of a stream, or of a namespace, the newest first.

    Raises:
        PluginError: they can't be listed, or there is no such stream and no snapshot of it.
    """
    found = [read_snapshot(document) for document in api.snapshots(namespace)]
    if stream:
        found = [one for one in found if one.stream == stream]
        if not found:
            api.stream(namespace, stream)  # a name that was mistyped is no empty table
    return sorted(found, key=lambda one: (one.created, one.name), reverse=True)


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
) -> None:
    """Have a snapshot made; with a timeout, wait until it is complete.

    Raises:
        PluginError: it is not allowed, the stream has no provider of snapshots or no such partition, or
            the snapshot failed or was not complete in time.
    """
    found = read_stream(api.stream(namespace, stream))
    if found.snapshots is None:
        raise PluginError(
            f"{found.title} has no spec.snapshots: say there who makes them, such as "
            "{provider: CSI}, and apply the manifest again"
        )
    found.require(partitions)
    spec: Object = {"streamRef": {"name": stream}}
    if partitions:
        spec["partitions"] = sorted(set(partitions))
    metadata = {"name": name, "namespace": namespace}
    wanted = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    api.create_snapshot(namespace, wanted)
    say(console, f"snapshot {namespace}/{name} of {stream} asked for")
    tell_if_paused(found, console)
    if found.suspended:
        say(console, "Suspended: its workers make their part of it once the stream is resumed.")
    if timeout_seconds is None:
        return

    def missing() -> str:
        return progress(read_snapshot(api.snapshot(namespace, name)))

    wait(console, missing, timeout_seconds)
    say(console, outcome(read_snapshot(api.snapshot(namespace, name))))


def progress(snapshot: Snapshot) -> str:
    """What is still missing of a snapshot; empty when it is final."""
    status = snapshot.status
    if status.phase.is_final:
        return ""
    if status.phase is SnapshotPhase.PENDING:
        return f"{snapshot.name} is Pending: the operator has not begun it"
    done = f", {status.progress} partitions" if status.progress else ""
    waits = f"; {snapshot.why_failed}" if snapshot.why_failed else ""
    return f"{snapshot.name} is {snapshot.phase}{done}{waits}"


def outcome(snapshot: Snapshot) -> str:
    """Say what a final snapshot holds.

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
    """One snapshot for a program."""
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


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
