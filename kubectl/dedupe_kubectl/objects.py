"""Typed views of the streams, snapshots and pods that the API server returns.

All commands read objects here. Invariant: fields that a newer release adds to a status are ignored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from dedupe_crds.annotations import PARTITION, PAUSE, STREAM
from dedupe_crds.formatting import ranges
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotStatus
from dedupe_crds.status.stream import Condition, PartitionStatus, StreamStatus
from dedupe_kubectl.errors import PluginError

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""
_Status = TypeVar("_Status", bound=BaseModel)

PAUSED: Final = f"the annotation {PAUSE} pauses reconciliation"


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A DedupeStream.

    `changed` is the last change of its spec, as far as managedFields record it. `snapshots` is the provider of
    its snapshots, None if it has none.
    """

    namespace: str
    name: str
    resource_version: str
    generation: int
    created: datetime
    changed: datetime
    deleting: datetime | None
    finalizers: Sequence[str]
    suspended: bool
    paused: bool
    flow: str
    snapshots: str | None
    annotations: Mapping[str, str]
    status: StreamStatus

    @property
    def title(self) -> str:
        """Return namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def observed(self) -> bool:
        """Return whether the status is about the newest spec."""
        return (self.status.observed_generation or 0) >= self.generation

    def condition(self, type_: str, status: str | None = None) -> Condition | None:
        """Return the condition of this type, or None if it has another status."""
        found = next((each for each in self.status.conditions if each.type == type_), None)
        return found if found and status in {None, found.status.value} else None

    def partition(self, number: int) -> PartitionStatus | None:
        """Return the status of a partition, None if the operator has not written it."""
        return self._partitions.get(number)

    @cached_property
    def _partitions(self) -> Mapping[int, PartitionStatus]:
        return {each.partition: each for each in self.status.partitions}

    def require(self, numbers: Iterable[int]) -> None:
        """Check that the stream has these partitions.

        Raises:
            PluginError: it has not, or its status lists no partitions yet.
        """
        known = [each.partition for each in self.status.partitions]
        if unknown := set(numbers) - set(known):
            has = f"it has {ranges(known)}" if known else "its status lists no partitions yet"
            raise PluginError(f"{self.title} has no partition {ranges(unknown)}: {has}")


def with_groups(stream: Object, groups: Iterable[Object]) -> Object:
    """Return a stream with the partitions that are in its objects `groups`.

    What its own status lists counts before them, as for the operator.
    """
    status, uid = stream.get("status") or {}, stream["metadata"].get("uid")
    parts = [*(each for each in groups if uid in _owners(each)), stream]
    entries = {
        entry["partition"]: entry
        for part in parts
        for entry in (part.get("status") or {}).get("partitions") or ()
    }
    partitions = [entries[number] for number in sorted(entries)]
    return {**stream, "status": {**status, "partitions": partitions}}


def read_stream(document: Object) -> Stream:
    """Read a DedupeStream.

    Raises:
        PluginError: the plugin cannot read the status of that release.
    """
    metadata, spec = document["metadata"], document.get("spec") or {}
    status = read_status(document, StreamStatus)
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    deleting = metadata.get("deletionTimestamp")
    return Stream(
        namespace=metadata["namespace"],
        name=metadata["name"],
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 1),
        created=created,
        changed=max([created, *_spec_changes(metadata)]),
        deleting=datetime.fromisoformat(deleting) if deleting else None,
        finalizers=metadata.get("finalizers") or (),
        suspended=spec.get("suspend") is True,
        paused=(metadata.get("annotations") or {}).get(PAUSE) == "true",
        snapshots=(spec.get("snapshots") or {}).get("provider"),
        annotations=metadata.get("annotations") or {},
        flow=f"{_input(spec)} → {(spec.get('output') or {}).get('topic', '?')}",
        status=status,
    )


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
        """Return namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def phase(self) -> str:
        """Return its phase, or Deleting."""
        return "Deleting" if self.deleting else self.status.phase.value

    @property
    def keys(self) -> int | None:
        """Return the ids of all its copies, as far as they are known."""
        return _sum([each.keys for each in self.status.partitions])

    @property
    def size(self) -> int | None:
        """Return the bytes of all its copies, as far as they are known."""
        return _sum([each.bytes for each in self.status.partitions])

    @property
    def window(self) -> timedelta | None:
        """Return the shortest window of its copies."""
        return min((each.window for each in self.status.partitions if each.window), default=None)

    @property
    def why_failed(self) -> str:
        """Return why it failed, or why copies of it failed; empty if nothing failed."""
        if self.status.message or self.status.reason:
            return ": ".join(filter(None, [self.status.reason, self.status.message]))
        errors = {each.error: each.partition for each in self.status.partitions if each.error}
        return "; ".join(f"partition {number}: {error}" for error, number in errors.items())

    @property
    def unreachable(self) -> str:
        """Return which copies can't be read or deleted where they lie; empty if none."""
        found = {each.unreachable: each.partition for each in self.status.partitions}
        reasons = ((why, number) for why, number in found.items() if why)
        return "; ".join(f"partition {number} can't be reached: {why}" for why, number in reasons)

    def copy_of(self, partition: int) -> PartitionSnapshot | None:
        """Return the copy of a partition, None if there is none."""
        return next((each for each in self.status.partitions if each.partition == partition), None)


def read_snapshot(document: Object) -> Snapshot:
    """Read a DedupeSnapshot.

    Raises:
        PluginError: the plugin cannot read the status of that release.
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


def read_status(document: Object, model: type[_Status]) -> _Status:
    """Return the status of an object, without fields that a newer release added.

    Raises:
        PluginError: the plugin cannot read the status of that release.
    """
    metadata = document["metadata"]
    try:
        return model.model_validate(document.get("status") or {}, extra="ignore")
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
        raise PluginError(
            f"the status of {metadata['namespace']}/{metadata['name']} was written by another "
            f"release of dedupestream ({fields}): install the plugin of the operator's version"
        ) from error


def by_partition(pods: Iterable[Object]) -> dict[int, Object]:
    """Return a stream's pods by their partition label."""
    numbered = ((_partition_label(pod), pod) for pod in pods)
    return {int(number): pod for number, pod in numbered if number.isdecimal()}


def stream_of(pod: Object) -> str:
    """Return the stream that a worker's pod belongs to."""
    return str((pod["metadata"].get("labels") or {}).get(STREAM, ""))


def is_ready(pod: Object) -> bool:
    """Return whether a pod is ready and not terminating."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return not pod["metadata"].get("deletionTimestamp") and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def _owners(document: Object) -> set[str | None]:
    return {each.get("uid") for each in document["metadata"].get("ownerReferences") or ()}


def _input(spec: Object) -> str:
    """Return the input topics in short: the name, the names, or their pattern."""
    given = spec.get("input") or {}
    names = ", ".join(given.get("topics") or ())
    return str(given.get("topic") or names or given.get("pattern") or "?")


def _partition_label(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(PARTITION, ""))


def _spec_changes(metadata: Object) -> list[datetime]:
    return [
        datetime.fromisoformat(entry["time"])
        for entry in metadata.get("managedFields") or []
        if entry.get("time") and "f:spec" in (entry.get("fieldsV1") or {})
    ]


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
