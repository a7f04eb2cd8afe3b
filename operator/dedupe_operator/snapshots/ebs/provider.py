"""EBS provider: copies as snapshots of EBS volumes, found by their tags."""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from dedupe_crds.quantity import GIB
from dedupe_operator.decide.volume_claims import is_bound, is_volume_of
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import PERSISTENT_VOLUMES
from dedupe_operator.snapshots.ebs import tags as ebs_tags
from dedupe_operator.snapshots.ebs import volumes as ebs_volumes
from dedupe_operator.snapshots.ebs.client import Ec2, code_of, may_have_acted, provider_errors
from dedupe_operator.snapshots.ebs.restore import VolumeRestore
from dedupe_operator.snapshots.provider import (
    ClaimSource,
    CopyStatus,
    Job,
    ProviderError,
    ProviderFailed,
)

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import SnapshotTypeDef

_NOT_FOUND: Final = "InvalidSnapshot.NotFound"
# EC2 may not list a new snapshot for this time (eventual consistency); seconds, as a rule.
_SHOWN_AFTER: Final = timedelta(minutes=5)
_PAGE: Final = 1000
_LONGEST_DESCRIPTION: Final = 255

log = logging.getLogger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class EbsProvider:
    """Provider with EC2 snapshots of the partitions' volumes.

    CreateSnapshot is not idempotent, so every snapshot has the UID of its DedupeSnapshot and its partition as tags, and
    the provider searches for them before it creates one. After a call whose answer was lost, it creates none for
    `eventual_consistency_seconds`; by then AWS lists the result. An attempt of a call takes at most `answer_seconds`,
    and each call has a few attempts. `clock` returns seconds and never goes backward; `now` returns the time in UTC.
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
        self._eventual_consistency_seconds = eventual_consistency_seconds
        self._clock = clock
        self._now = now
        self._requested_at: dict[tuple[str, int], float] = {}  # when, by `clock`

    @provider_errors()
    def start(self, job: Job) -> str:
        """Adopt the snapshot that has the job's tags, or create one; return its id."""
        client = self._client(job)
        found = [each for each in self._all(client, job) if each.get("State") != "error"]
        if found:
            kept, *twins = (each["SnapshotId"] for each in found)
            self._delete(client, job, twins)
            return kept
        volume_id = self._volume_id(job)
        self._check_no_lost_answer(job)
        return self._create(job, volume_id)

    @provider_errors()
    def status(self, job: Job) -> CopyStatus:
        """Return the state of the snapshot; once it is complete, delete its duplicates."""
        client = self._client(job)
        found = self._one(client, job.entry.handle)
        if found is None:
            if self._may_not_be_shown_yet(job):
                return CopyStatus(usable=False)
            raise _gone(job)
        if not ebs_tags.is_of_partition(job, found):
            raise _not_ours(job)
        if found["State"] == "error":
            message = f"snapshot {job.entry.handle} failed: {found.get('StateMessage') or 'AWS gives no reason'}"
            raise ProviderFailed("SnapshotFailed", message)
        if found["State"] != "completed":
            return CopyStatus(usable=False)
        others = (each["SnapshotId"] for each in self._all(client, job))
        self._delete(client, job, [each for each in others if each != job.entry.handle])
        return CopyStatus(
            usable=True,
            bytes=found.get("FullSnapshotSizeInBytes"),
            volume_size=found["VolumeSize"] * GIB,
        )

    @provider_errors()
    def remove(self, job: Job) -> None:
        """Delete all snapshots with the job's tags, even if their ids were never recorded."""
        client = self._client(job)
        ours = [each["SnapshotId"] for each in self._all(client, job)]
        handle = job.entry.handle
        if handle is not None and handle not in ours:
            found = self._one(client, handle)
            if found is not None and ebs_tags.is_ours(job, found):
                ours.append(handle)
            elif found is not None:
                log.warning(
                    "EBS snapshot %s does not have the tags of DedupeSnapshot %s/%s: not deleted",
                    handle,
                    job.stream.metadata.namespace,
                    job.snapshot,
                )
        self._delete(client, job, ours)

    @provider_errors()
    def exists(self, job: Job) -> bool:
        """Return whether it is of the partition, complete, and not archived."""
        found = self._one(self._client(job), job.entry.handle)
        return (
            found is not None
            and ebs_tags.is_of_partition(job, found)
            and found["State"] == "completed"
            and not _is_archived(found)
        )

    def failure(self, events: Sequence[Object], now: datetime) -> str | None:  # noqa: ARG002 # the volume is made before its claim
        """Return None: the volume is made before its claim."""
        return None

    @provider_errors()
    def source(self, job: Job, claim_name: str) -> ClaimSource:
        """Create a volume of the snapshot, and a PersistentVolume for the new claim.

        Raises ProviderError while the volume is being created.
        """
        client = self._client(job)
        restore = VolumeRestore(self._api, client, job, claim_name, self._now)
        if made := restore.existing():
            return made
        found = self._one(client, job.entry.handle)
        if found is None:
            raise _gone(job)
        if not ebs_tags.is_of_partition(job, found):
            raise _not_ours(job)
        if _is_archived(found):
            message = f"snapshot {job.entry.handle} is in the archive: restore it from there first"
            raise ProviderFailed("SnapshotArchived", message)
        return restore.create(found)

    def _client(self, job: Job) -> "EC2Client":
        return self._ec2.client(ebs_tags.settings(job).region)

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

    def _check_no_lost_answer(self, job: Job) -> None:
        if self._requested_within(self._eventual_consistency_seconds, job):
            message = "the answer of AWS to CreateSnapshot was lost, and the snapshot may not be listed yet"
            raise ProviderError("AwsUnavailable", message)

    def _may_not_be_shown_yet(self, job: Job) -> bool:
        entry = job.entry
        if entry.handle is None or entry.completed is not None:
            return False
        begun = entry.started is not None and self._now() - entry.started < _SHOWN_AFTER
        return begun or self._requested_within(_SHOWN_AFTER.total_seconds(), job)

    def _requested_within(self, seconds: float, job: Job) -> bool:
        since = self._requested_at.get((job.snapshot_uid, job.partition))
        return since is not None and self._clock() - since < seconds

    def _create(self, job: Job, volume_id: str) -> str:
        client = self._ec2.client_for_one_attempt(ebs_tags.settings(job).region)
        stream = ebs_tags.stream_name(job)
        key, now = (job.snapshot_uid, job.partition), self._clock()
        # A copy of the items: other threads reconcile other streams meanwhile.
        for earlier, at in list(self._requested_at.items()):
            if now - at > _SHOWN_AFTER.total_seconds():
                self._requested_at.pop(earlier, None)
        self._requested_at[key] = now
        description = f"dedupestream {stream}, partition {job.partition}: {job.snapshot}"
        try:
            made = client.create_snapshot(
                VolumeId=volume_id,
                Description=description[:_LONGEST_DESCRIPTION],
                TagSpecifications=[
                    {
                        "ResourceType": "snapshot",
                        "Tags": ebs_tags.as_list(ebs_tags.of_snapshot(job)),
                    }
                ],
            )
        except ClientError as error:
            if not may_have_acted(error):
                self._requested_at.pop(key, None)
            if code_of(error) == "InvalidVolume.NotFound":
                message = f"EBS volume {volume_id} is gone"
                raise ProviderFailed("VolumeGone", message) from error
            raise
        log.info("EBS snapshot %s of %s/%s begun", made["SnapshotId"], stream, job.partition)
        return made["SnapshotId"]

    def _all(self, client: "EC2Client", job: Job) -> "list[SnapshotTypeDef]":
        """Return the snapshots with the job's tags, oldest first.

        There is more than one if the answer to a call was lost.
        """
        pages = client.get_paginator("describe_snapshots").paginate(
            OwnerIds=["self"],
            Filters=ebs_tags.snapshot_filters(job),
            PaginationConfig={"PageSize": _PAGE},
        )
        found = [
            each for page in pages for each in page["Snapshots"] if ebs_tags.is_ours(job, each)
        ]
        return sorted(found, key=lambda each: (each["StartTime"], each["SnapshotId"]))

    def _one(self, client: "EC2Client", handle: str | None) -> "SnapshotTypeDef | None":
        """Return the snapshot of an id; None if absent or in the recycle bin."""
        if handle is None:
            return None
        try:
            (found,) = client.describe_snapshots(SnapshotIds=[handle])["Snapshots"]
        except ClientError as error:
            if code_of(error) == _NOT_FOUND:
                return None
            raise
        return None if found["State"] == "recoverable" else found

    def _delete(self, client: "EC2Client", job: Job, snapshot_ids: list[str]) -> None:
        for snapshot_id in snapshot_ids:
            try:
                client.delete_snapshot(SnapshotId=snapshot_id)
            except ClientError as error:
                if code_of(error) != _NOT_FOUND:
                    raise
            stream = ebs_tags.stream_name(job)
            log.info("EBS snapshot %s of %s/%s deleted", snapshot_id, stream, job.partition)


def _gone(job: Job) -> ProviderError:
    message = f"EBS snapshot {job.entry.handle} is gone"
    return ProviderFailed("SnapshotGone", message)


def _not_ours(job: Job) -> ProviderError:
    wanted = " and ".join(f"{k}={v}" for k, v in ebs_tags.of_partition(job).items())
    message = f"EBS snapshot {job.entry.handle} does not have the tags {wanted}"
    return ProviderFailed("SnapshotNotOurs", message)


def _is_archived(found: "SnapshotTypeDef") -> bool:
    # RestoreExpiryTime: the snapshot is restored from the archive until then.
    return found.get("StorageTier") == "archive" and "RestoreExpiryTime" not in found
