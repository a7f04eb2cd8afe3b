"""DedupeSnapshots in the API server: read, made, their status written."""

from collections.abc import Iterable
from datetime import datetime

from pydantic import ValidationError

from dedupe_crds.spec.stream import API_VERSION, DedupeStream
from dedupe_crds.status.snapshot import KIND, SnapshotSpec, SnapshotStatus
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import SNAPSHOTS, KubernetesApi
from dedupe_operator.kubernetes.names import COPIES, SCHEDULED, Object, stream_labels


def read_snapshots(listed: Iterable[Object]) -> tuple[Snapshot, ...]:
    """Those of a namespace, of all streams. One that another version wrote, and can't be read, is left alone."""
    found = []
    for raw in listed:
        metadata = raw["metadata"]
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
                scheduled=(metadata.get("labels") or {}).get(SCHEDULED) == "true",
                deleting=bool(metadata.get("deletionTimestamp")),
                holds_copies=COPIES in (metadata.get("finalizers") or []),
                partitions=tuple(spec.partitions),
                status=status,
            )
        )
    return tuple(found)


class SnapshotRecords:
    """Writes the DedupeSnapshots of one namespace. Raises KubernetesError from any method."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def create_scheduled(self, stream: DedupeStream, name: str) -> bool:
        """Make the one for a time of the schedule; False if it is there already."""
        wanted: Object = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": {**stream_labels(stream.metadata.name), SCHEDULED: "true"},
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
        """Write its status."""
        body = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._api.apply({**self._this(snapshot), "status": body}, subresource="status")

    def hold(self, snapshot: Snapshot) -> None:
        """Keep the object, once it is deleted, until its copies are."""
        self._set(snapshot, held=True)

    def release(self, snapshot: Snapshot) -> None:
        """Let the object go."""
        self._set(snapshot, held=False)

    def _set(self, snapshot: Snapshot, *, held: bool) -> None:
        # Not by server-side apply, which leaves a finalizer that somebody else wrote too, such as with a backup.
        live = self._api.get(SNAPSHOTS, self._namespace, snapshot.name)
        if live is None or live["metadata"]["uid"] != snapshot.uid:
            return
        others = [one for one in live["metadata"].get("finalizers") or [] if one != COPIES]
        self._api.set_finalizers(SNAPSHOTS, live, [*others, COPIES] if held else others)

    def delete(self, snapshot: Snapshot) -> None:
        """Delete it; what goes with it is seen to before it is gone."""
        self._api.delete(SNAPSHOTS, self._this(snapshot))

    def _this(self, snapshot: Snapshot) -> Object:
        # With the UID, what is written does not go to a namesake made since.
        metadata = {"name": snapshot.name, "namespace": self._namespace, "uid": snapshot.uid}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
