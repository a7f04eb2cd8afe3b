"""Read, create and delete DedupeSnapshots, and write their status.

The snapshot manager and runner call it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from pydantic import ValidationError

from dedupe_crds.spec.stream import API_VERSION, DedupeStream
from dedupe_crds.status.snapshot import KIND, PartitionSnapshot, SnapshotSpec, SnapshotStatus
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import (
    COPIES,
    INSTANCE,
    NOT_PRUNED,
    SCHEDULED,
    Object,
    is_prunable,
    lasting_labels,
)
from dedupe_operator.kubernetes.resources import SNAPSHOTS


def read_snapshots(listed: Iterable[Object]) -> tuple[Snapshot, ...]:
    """Return the readable DedupeSnapshots among `listed`.

    Those that another version wrote, and that can't be read, are ignored.
    """
    found = []
    for raw in listed:
        metadata = raw["metadata"]
        scheduled = (metadata.get("labels") or {}).get(SCHEDULED) == "true"
        try:
            spec = SnapshotSpec.model_validate(raw.get("spec") or {})
            status = SnapshotStatus.model_validate(raw.get("status") or {})
        except ValidationError:
            continue
        found.append(
            Snapshot(
                name=metadata["name"],
                uid=metadata["uid"],
                stream=spec.stream_ref.name,
                created=datetime.fromisoformat(metadata["creationTimestamp"]),
                scheduled=scheduled,
                prunable=scheduled and is_prunable(metadata),
                deleting=bool(metadata.get("deletionTimestamp")),
                holds_copies=COPIES in (metadata.get("finalizers") or []),
                partitions=tuple(spec.partitions),
                status=status,
            )
        )
    return tuple(found)


class SnapshotWriter:
    """Writes the DedupeSnapshots of one namespace.

    Each method raises KubernetesError.
    """

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def create_scheduled(self, stream: DedupeStream, name: str) -> bool:
        """Create the snapshot of a scheduled time; return False if it exists already."""
        wanted: Object = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": {**lasting_labels(stream.metadata.name), SCHEDULED: "true"},
                "annotations": dict(NOT_PRUNED),
            },
            "spec": {"streamRef": {"name": stream.metadata.name}},
        }
        try:
            self._api.create(wanted)
        except KubernetesError as error:
            if error.reason == "Conflict":
                return False
            raise
        return True

    def write(self, snapshot: Snapshot, status: SnapshotStatus) -> None:
        """Write a snapshot's status."""
        body = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._api.apply({**self._this(snapshot), "status": body}, subresource="status")

    def write_entries(self, snapshot: Snapshot, changed: Mapping[int, PartitionSnapshot]) -> None:
        """Write the entries of some partitions."""
        entries = [changed.get(each.partition, each) for each in snapshot.status.partitions]
        self.write(snapshot, snapshot.status.model_copy(update={"partitions": entries}))

    def hold(self, snapshot: Snapshot) -> None:
        """Add the finalizer: retain the object until its copies are deleted."""
        self._set(snapshot, held=True)

    def release(self, snapshot: Snapshot) -> None:
        """Remove the finalizer: the API server may delete the object."""
        self._set(snapshot, held=False)

    def keep_from_pruning(self, snapshot: Snapshot) -> None:
        """Replace what an earlier version wrote, and Argo CD takes for its own."""
        if live := self._live(snapshot):
            changes = {"labels": {INSTANCE: None}, "annotations": NOT_PRUNED}
            self._api.patch_metadata(SNAPSHOTS, live, changes)

    def _set(self, snapshot: Snapshot, *, held: bool) -> None:
        # Not by server-side apply: it leaves a finalizer that has another owner too, for example a backup tool.
        live = self._live(snapshot)
        if live is None:
            return
        others = [each for each in live["metadata"].get("finalizers") or [] if each != COPIES]
        finalizers = [*others, COPIES] if held else others
        self._api.patch_metadata(SNAPSHOTS, live, {"finalizers": finalizers})

    def _live(self, snapshot: Snapshot) -> Object | None:
        live = self._api.get(SNAPSHOTS, self._namespace, snapshot.name)
        return live if live and live["metadata"]["uid"] == snapshot.uid else None

    def delete(self, snapshot: Snapshot) -> None:
        """Delete a snapshot. If it is held, its copies are deleted before it is gone."""
        self._api.delete(SNAPSHOTS, self._this(snapshot))

    def _this(self, snapshot: Snapshot) -> Object:
        # The UID prevents a write to a later snapshot of the same name.
        metadata = {"name": snapshot.name, "namespace": self._namespace, "uid": snapshot.uid}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
