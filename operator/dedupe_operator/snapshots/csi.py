"""VolumeSnapshots: copies that the cluster's own storage driver makes and keeps."""

from typing import Final

from dedupe_crds.quantity import parse_size
from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.status.snapshot import KIND
from dedupe_operator.decide.stamp import stamp_annotations
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import VOLUME_SNAPSHOTS, KubernetesApi
from dedupe_operator.kubernetes.names import Object, partition_labels
from dedupe_operator.snapshots.provider import Copy, Job, ProviderError, Source

SNAPSHOT_UID: Final = "dedupestream.io/snapshot-uid"


class CsiProvider:
    """One VolumeSnapshot for each partition, named after its DedupeSnapshot, which owns it."""

    takes_checkpoint = False

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def start(self, job: Job) -> str:
        """Create the VolumeSnapshot, or adopt it."""
        wanted = _build(job)
        name = str(wanted["metadata"]["name"])
        try:
            self._api.create(wanted)
        except KubernetesError as error:
            if error.reason == "NotFound":
                raise ProviderError(
                    "VolumeSnapshotsNotInstalled",
                    "the cluster does not know VolumeSnapshots: install the CSI snapshot controller and its "
                    "CustomResourceDefinitions, or choose another spec.snapshots.provider",
                    final=True,
                ) from error
            if error.reason != "Conflict":
                raise _unable(error) from error
            self._find(job, name)  # ours, from before a crash, or somebody else's
        return name

    def look(self, job: Job) -> Copy:
        """Whether the driver says that it can be used."""
        found = self._find(job, job.entry.handle or _name(job))
        if found is None:
            raise ProviderError(
                "SnapshotGone", f"VolumeSnapshot {job.entry.handle} was deleted", final=True
            )
        status = found.get("status") or {}
        if status.get("readyToUse"):
            size = status.get("restoreSize")
            return Copy(usable=True, volume_size=parse_size(size) if size else None)
        if message := (status.get("error") or {}).get("message"):
            # The driver tries again by itself, until the snapshot's deadline.
            raise ProviderError("VolumeSnapshotFailed", str(message), final=False)
        return Copy(usable=False)

    def remove(self, job: Job) -> None:
        """Delete the VolumeSnapshot; what becomes of the copy is up to its class's deletionPolicy."""
        try:
            found = self._find(job, job.entry.handle or _name(job))
            if found is not None:
                self._api.delete(VOLUME_SNAPSHOTS, found)
        except ProviderError as error:
            if error.reason != "NameTaken":
                raise
        except KubernetesError as error:
            raise _unable(error) from error

    def is_there(self, job: Job) -> bool:
        """Whether the VolumeSnapshot is there, and not about to go."""
        try:
            found = self._find(job, job.entry.handle or _name(job))
        except ProviderError as error:
            if error.final:
                return False
            raise
        if found is None or found["metadata"].get("deletionTimestamp"):
            return False
        return bool((found.get("status") or {}).get("readyToUse"))

    def source(self, job: Job, claim_name: str) -> Source:  # noqa: ARG002 # the driver makes the volume itself
        """What the claim's spec says; the driver makes the volume."""
        group, _, _ = VOLUME_SNAPSHOTS.api_version.partition("/")
        name = job.entry.handle or _name(job)
        return Source(
            least_size=job.entry.volume_size or 0,
            claim_spec={
                "dataSource": {"apiGroup": group, "kind": VOLUME_SNAPSHOTS.kind, "name": name}
            },
        )

    def _find(self, job: Job, name: str) -> Object | None:
        """The VolumeSnapshot of a copy. Raises ProviderError if its name is that of another."""
        try:
            found = self._api.get(VOLUME_SNAPSHOTS, job.stream.metadata.namespace, name)
        except KubernetesError as error:
            raise _unable(error) from error
        if found is not None:
            annotations = found["metadata"].get("annotations") or {}
            if annotations.get(SNAPSHOT_UID) != job.snapshot_uid:
                message = (
                    f"VolumeSnapshot {name} is not this snapshot's, and is left alone: remove or rename it, or give "
                    "the DedupeSnapshot another name"
                )
                raise ProviderError("NameTaken", message, final=True)
        return found


def _name(job: Job) -> str:
    return f"{job.snapshot}-{job.partition}"


def _build(job: Job) -> Object:
    if job.claim is None:
        raise ProviderError("NoVolume", "the partition has no volume claim", final=False)
    spec: Object = {"source": {"persistentVolumeClaimName": job.claim["metadata"]["name"]}}
    snapshots = job.stream.spec.snapshots
    if snapshots and (name := snapshots.csi.volume_snapshot_class_name):
        spec["volumeSnapshotClassName"] = name
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.snapshot,
        "uid": job.snapshot_uid,
    }
    return {
        "apiVersion": VOLUME_SNAPSHOTS.api_version,
        "kind": VOLUME_SNAPSHOTS.kind,
        "metadata": {
            "name": _name(job),
            "namespace": job.stream.metadata.namespace,
            "labels": partition_labels(job.stream.metadata.name, job.partition),
            "annotations": {SNAPSHOT_UID: job.snapshot_uid, **stamp_annotations(job.entry)},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _unable(error: KubernetesError) -> ProviderError:
    return ProviderError(error.reason, str(error), final=False)
