"""EBS provider: copies as snapshots of EBS volumes, found by their tags."""

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING

from dedupe_crds.quantity import GIB
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_operator.decide.volume_claims import is_bound, is_volume_of
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import NAMESPACES, PERSISTENT_VOLUMES
from dedupe_operator.snapshots.ebs import tags as ebs_tags
from dedupe_operator.snapshots.ebs import volumes as ebs_volumes
from dedupe_operator.snapshots.ebs.client import Ec2, provider_errors
from dedupe_operator.snapshots.ebs.left_volumes import remove_left_volumes
from dedupe_operator.snapshots.ebs.restore import VolumeRestore, volume_name
from dedupe_operator.snapshots.ebs.snapshots import (
    Ec2Snapshots,
    gone,
    is_archived,
    not_ours,
    region_of,
)
from dedupe_operator.snapshots.provider import (
    ClaimSource,
    CopyStatus,
    Job,
    LeftBehind,
    ProviderError,
    ProviderFailed,
)

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import SnapshotTypeDef

log = logging.getLogger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class EbsProvider:
    """Provider with EC2 snapshots of the partitions' volumes.

    Every snapshot has the UID of its DedupeSnapshot and its partition as tags, and the provider searches for them
    before it creates one. An attempt of a call takes at most `answer_seconds`, and each call has a few attempts.
    The other arguments are those of `Ec2Snapshots`.
    """

    takes_checkpoint = False

    def __init__(
        self,
        api: KubernetesApi,
        *,
        answer_seconds: float = 6.0,
        eventual_consistency_seconds: float = 30.0,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._api = api
        self._ec2 = Ec2(answer_seconds=answer_seconds)
        self._snapshots = Ec2Snapshots(
            self._ec2,
            eventual_consistency_seconds=eventual_consistency_seconds,
            clock=clock,
            now=now,
        )
        self._now = now
        self._cluster: str | None = None

    @provider_errors()
    def start(self, job: Job) -> str:
        """Adopt the snapshot that has the job's tags, or create one; return its id."""
        client = self._client(job)
        found = [each for each in self._snapshots.all(client, job) if each.get("State") != "error"]
        if found:
            kept, *twins = (each["SnapshotId"] for each in found)
            self._snapshots.delete(client, job, twins)
            return kept
        volume_id = self._volume_id(job)
        self._snapshots.check_no_lost_answer(job)
        return self._snapshots.create(job, volume_id)

    @provider_errors()
    def status(self, job: Job) -> CopyStatus:
        """Return the state of the snapshot; once it is complete, delete its duplicates."""
        client = self._client(job)
        found = self._snapshots.one(client, job.entry.handle)
        if found is None:
            if self._snapshots.may_not_be_shown_yet(job):
                return CopyStatus(usable=False)
            raise gone(job)
        if not ebs_tags.is_of_partition(job, found):
            raise not_ours(job)
        if found["State"] == "error":
            message = f"snapshot {job.entry.handle} failed: {found.get('StateMessage') or 'AWS gives no reason'}"
            raise ProviderFailed("SnapshotFailed", message)
        if found["State"] != "completed":
            return CopyStatus(usable=False)
        others = (each["SnapshotId"] for each in self._snapshots.all(client, job))
        self._snapshots.delete(client, job, [each for each in others if each != job.entry.handle])
        return CopyStatus(
            usable=True,
            bytes=found.get("FullSnapshotSizeInBytes"),
            volume_size=found["VolumeSize"] * GIB,
        )

    @provider_errors()
    def remove(self, job: Job) -> None:
        """Delete all snapshots with the job's tags, even if their ids were never recorded."""
        client = self._client(job)
        ours = [each["SnapshotId"] for each in self._snapshots.all(client, job)]
        handle = job.entry.handle
        if handle is not None and handle not in ours:
            found = self._snapshots.one(client, handle)
            if found is not None and ebs_tags.is_ours(job, found):
                ours.append(handle)
            elif found is not None:
                log.warning(
                    "EBS snapshot %s does not have the tags of DedupeSnapshot %s/%s: not deleted",
                    handle,
                    job.stream.metadata.namespace,
                    job.snapshot,
                )
        self._snapshots.delete(client, job, ours)

    @provider_errors()
    def exists(self, job: Job) -> bool:
        """Return whether it is of the partition, complete, and not archived."""
        found = self._snapshots.one(self._client(job), job.entry.handle)
        return (
            found is not None
            and ebs_tags.is_of_partition(job, found)
            and found["State"] == "completed"
            and not is_archived(found)
        )

    def is_readable(self, job: Job) -> bool:
        """Return whether it can be restored from, as `exists`."""
        return self.exists(job)

    @provider_errors()
    def location(self, job: Job) -> CopyLocation:
        """Return the region of the stream's settings, else of the environment."""
        client = self._ec2.client(ebs_tags.settings(job).region)
        return CopyLocation(region=client.meta.region_name)

    def failure(self, events: Sequence[Object], now: datetime) -> str | None:  # noqa: ARG002 # `provision` says so itself
        """Return None: `provision` raises it."""
        return None

    @provider_errors()
    def source(self, job: Job, claim_name: str) -> ClaimSource:
        """Return what a new claim names and needs; nothing is made."""
        client = self._client(job)
        found = self._restorable(client, job)
        return VolumeRestore(self._api, client, job, self._now).source(found, claim_name)

    @provider_errors()
    def provision(self, job: Job, claim: Object) -> None:
        """Create a volume of the snapshot, and the PersistentVolume that the claim names.

        Raises ProviderError while the volume is being created.
        """
        metadata, name = claim["metadata"], claim["spec"].get("volumeName")
        if self._api.get(PERSISTENT_VOLUMES, None, name or ""):
            return  # an earlier call has completed
        if name != volume_name(job, metadata["name"]):
            message = (
                f"PVC {metadata['name']} waits for PersistentVolume {name}, which is not made here"
            )
            raise ProviderError("VolumeNotBound", message)
        self._api.require_live()  # a claim that is gone needs no volume
        client = self._client(job)
        found = self._restorable(client, job)
        VolumeRestore(self._api, client, job, self._now).create(found, claim, self._cluster_id())

    @provider_errors()
    def remove_left_behind(
        self, stream: DedupeStream, locations: Collection[CopyLocation]
    ) -> LeftBehind:
        """Delete the volumes that were made for claims that are gone, by their tags."""
        snapshots = stream.spec.snapshots
        regions = {each.region for each in locations}
        regions.add(self._ec2.client(snapshots.ebs.region if snapshots else None).meta.region_name)
        clients = [self._ec2.client(region) for region in sorted(filter(None, regions))]
        return remove_left_volumes(self._api, clients, stream, self._cluster_id, self._now())

    def _cluster_id(self) -> str:
        """Return the id of this cluster. Raises ProviderError, KubernetesError."""
        if self._cluster is None:
            found = self._api.get(NAMESPACES, None, "kube-system")
            if found is None:
                message = "the cluster has no namespace kube-system, whose UID names it in tags"
                raise ProviderError("ClusterUnknown", message)
            self._cluster = str(found["metadata"]["uid"])
        return self._cluster

    def _restorable(self, client: "EC2Client", job: Job) -> "SnapshotTypeDef":
        """Return the snapshot that a volume can be made from. Raises ProviderFailed."""
        found = self._snapshots.one(client, job.entry.handle)
        if found is None:
            raise gone(job)
        if not ebs_tags.is_of_partition(job, found):
            raise not_ours(job)
        if is_archived(found):
            message = f"snapshot {job.entry.handle} is in the archive: restore it from there first"
            raise ProviderFailed("SnapshotArchived", message)
        return found

    def _client(self, job: Job) -> "EC2Client":
        return self._ec2.client(region_of(job))

    def _volume_id(self, job: Job) -> str:
        """Return EC2's id of the volume. Raises ProviderError, KubernetesError."""
        if job.claim is None:
            message = f"partition {job.partition} has no volume claim"
            raise ProviderError("NoVolume", message)
        claim = job.claim["metadata"]["name"]
        name = job.claim["spec"].get("volumeName")
        if not name or not is_bound(job.claim):
            raise ProviderError("VolumeNotBound", f"claim {claim} has no volume yet")
        volume = self._api.get(PERSISTENT_VOLUMES, None, name)
        if volume is None:
            message = f"PersistentVolume {name} of claim {claim} is gone"
            raise ProviderFailed("VolumeGone", message)
        if not is_volume_of(job.claim, volume):
            message = f"PersistentVolume {name} is not bound to claim {claim}"
            raise ProviderError("VolumeNotBound", message)
        found = ebs_volumes.volume_id(volume)
        if found is None:
            driver = volume["spec"].get("csi", {}).get("driver") or "no CSI driver"
            message = (
                f"PersistentVolume {name} is not on Amazon EBS ({driver}): use spec.snapshots.provider "
                "CSI if that driver supports snapshots, else S3"
            )
            raise ProviderFailed("NotAnEbsVolume", message)
        return found
