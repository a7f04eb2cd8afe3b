"""CSI provider: copies as VolumeSnapshots, made by the storage driver."""

from collections.abc import Collection, Sequence
from datetime import datetime

from dedupe_crds.quantity import parse_size
from dedupe_crds.spec.stream import API_VERSION, DedupeStream
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_crds.status.snapshot import KIND
from dedupe_operator.decide.provisioning import provisioning_failure
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import NOT_PRUNED, SNAPSHOT_UID, Object, lasting_labels
from dedupe_operator.kubernetes.resources import VOLUME_SNAPSHOTS
from dedupe_operator.snapshots.metadata import checkpoint_annotations
from dedupe_operator.snapshots.provider import (
    ClaimSource,
    CopyStatus,
    Job,
    LeftBehind,
    ProviderError,
    ProviderFailed,
)


class CsiProvider:
    """Provider with one VolumeSnapshot a partition, owned by its DedupeSnapshot."""

    takes_checkpoint = False

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def start(self, job: Job) -> str:
        """Create the VolumeSnapshot, or adopt an existing one; return its name."""
        wanted = _build(job)
        name = str(wanted["metadata"]["name"])
        try:
            self._api.create(wanted)
        except KubernetesError as error:
            if error.reason == "NotFound":
                raise ProviderFailed(
                    "VolumeSnapshotsNotInstalled",
                    "the cluster does not serve VolumeSnapshots: install the CSI snapshot controller and its "
                    "CustomResourceDefinitions, or choose another spec.snapshots.provider",
                ) from error
            if error.reason != "Conflict":
                raise _as_provider_error(error) from error
            self._find(job, name)  # ours, from before a crash, or an unrelated one
        return name

    def status(self, job: Job) -> CopyStatus:
        """Return whether the driver reports the VolumeSnapshot as ready to use."""
        found = self._find(job, job.entry.handle or _name(job))
        if found is None:
            raise ProviderFailed("SnapshotGone", f"VolumeSnapshot {job.entry.handle} was deleted")
        status = found.get("status") or {}
        if status.get("readyToUse"):
            size = status.get("restoreSize")
            return CopyStatus(usable=True, volume_size=parse_size(size) if size else None)
        if message := (status.get("error") or {}).get("message"):
            # The driver retries automatically, until the snapshot's deadline.
            raise ProviderError("VolumeSnapshotFailed", str(message))
        return CopyStatus(usable=False)

    def remove(self, job: Job) -> None:
        """Delete the VolumeSnapshot; its class's deletionPolicy decides about the copy."""
        try:
            found = self._find(job, job.entry.handle or _name(job))
            if found is not None:
                self._api.delete(VOLUME_SNAPSHOTS, found)
        except ProviderError as error:
            if error.reason != "NameTaken":
                raise
        except KubernetesError as error:
            raise _as_provider_error(error) from error

    def exists(self, job: Job) -> bool:
        """Return whether the VolumeSnapshot exists, is ready and is not being deleted."""
        try:
            found = self._find(job, job.entry.handle or _name(job))
        except ProviderError as error:
            if not error.retriable:
                return False
            raise
        if found is None or found["metadata"].get("deletionTimestamp"):
            return False
        return bool((found.get("status") or {}).get("readyToUse"))

    def is_readable(self, job: Job) -> bool:
        """Return whether the VolumeSnapshot exists, is ready and is not being deleted."""
        return self.exists(job)

    def location(self, job: Job) -> None:
        """Return None: the copy is named by an object of the cluster."""

    def failure(self, events: Sequence[Object], now: datetime) -> str | None:
        """Return why the driver has not made a claim's volume for some minutes."""
        return provisioning_failure(events, now)

    def source(self, job: Job, claim_name: str) -> ClaimSource:  # noqa: ARG002 # the driver creates the volume
        """Return the data source for the claim's spec; the driver creates the volume."""
        group, _, _ = VOLUME_SNAPSHOTS.api_version.partition("/")
        name = job.entry.handle or _name(job)
        return ClaimSource(
            least_size=job.entry.volume_size or 0,
            claim_spec={
                "dataSource": {"apiGroup": group, "kind": VOLUME_SNAPSHOTS.kind, "name": name}
            },
        )

    def provision(self, job: Job, claim: Object) -> None:
        """Do nothing: the driver creates the volume."""

    def remove_left_behind(
        self,
        stream: DedupeStream,  # noqa: ARG002 # the driver has made all volumes
        locations: Collection[CopyLocation],  # noqa: ARG002 # as above
    ) -> LeftBehind:
        """Return that there is nothing: the driver removes what it has made."""
        return LeftBehind()

    def _find(self, job: Job, name: str) -> Object | None:
        """Return the VolumeSnapshot of a copy. Raises ProviderFailed if its name is taken."""
        try:
            found = self._api.get(VOLUME_SNAPSHOTS, job.stream.metadata.namespace, name)
        except KubernetesError as error:
            raise _as_provider_error(error) from error
        if found is not None:
            annotations = found["metadata"].get("annotations") or {}
            if annotations.get(SNAPSHOT_UID) != job.snapshot_uid:
                message = (
                    f"VolumeSnapshot {name} does not belong to this snapshot and is left unchanged: remove it, or "
                    "give the DedupeSnapshot another name"
                )
                raise ProviderFailed("NameTaken", message)
        return found


def _name(job: Job) -> str:
    return f"{job.snapshot}-{job.partition}"


def _build(job: Job) -> Object:
    if job.claim is None:
        raise ProviderError("NoVolume", "the partition has no volume claim")
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
            "labels": lasting_labels(job.stream.metadata.name, job.partition),
            "annotations": {
                **NOT_PRUNED,
                SNAPSHOT_UID: job.snapshot_uid,
                **checkpoint_annotations(job.entry),
            },
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _as_provider_error(error: KubernetesError) -> ProviderError:
    return ProviderError(error.reason, str(error))
