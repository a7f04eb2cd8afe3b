"""Snapshots of Amazon EBS volumes, asked for at EC2 itself, and what they are found again by: their tags."""

import logging
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from dedupe_crds.quantity import GIB
from dedupe_operator.kubernetes.api import PERSISTENT_VOLUMES, KubernetesApi
from dedupe_operator.snapshots.ebs import tags as ebs_tags
from dedupe_operator.snapshots.ebs import volumes as ebs_volumes
from dedupe_operator.snapshots.ebs.client import Ec2, code_of, may_have_acted, provider_errors
from dedupe_operator.snapshots.ebs.restore import Restoring
from dedupe_operator.snapshots.provider import Copy, Job, ProviderError, Source

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import SnapshotTypeDef

_NOT_FOUND: Final = "InvalidSnapshot.NotFound"
# So long may EC2 not show what it has made ("eventual consistency"); seconds, as a rule.
_SHOWN_AFTER: Final = timedelta(minutes=5)
_PAGE: Final = 1000
_LONGEST_DESCRIPTION: Final = 255

log = logging.getLogger(__name__)


class EbsProvider:
    """EC2's snapshots of the partitions' volumes.

    CreateSnapshot can't be repeated safely, so every snapshot carries the UID of its DedupeSnapshot
    and its partition as tags, and is looked for by them before one is made. After a call whose answer
    was lost none is made for `settle_seconds`, until AWS surely shows what came of it. An attempt of a
    call takes at most `answer_seconds`, and each call a few attempts.
    """

    takes_checkpoint = False

    def __init__(
        self, api: KubernetesApi, *, answer_seconds: float = 6.0, settle_seconds: float = 30.0
    ) -> None:
        self._api = api
        self._ec2 = Ec2(answer_seconds=answer_seconds)
        self._settle_seconds = settle_seconds
        self._asked: dict[tuple[str, int], float] = {}  # when, by the clock that never jumps

    @provider_errors()
    def start(self, job: Job) -> str:
        """Adopt the snapshot that has the job's tags, or make one."""
        client = self._client(job)
        found = [one for one in self._all(client, job) if one.get("State") != "error"]
        if found:
            kept, *twins = (one["SnapshotId"] for one in found)
            self._delete(client, job, twins)
            return kept
        volume_id = self._volume_id(job)
        self._wait_for_an_earlier_one(job)
        return self._create(job, volume_id)

    @provider_errors()
    def look(self, job: Job) -> Copy:
        """How the snapshot stands. Once it is complete, one that was made twice is gone, too."""
        client = self._client(job)
        found = self._one(client, job.entry.handle)
        if found is None:
            if self._may_not_be_shown_yet(job):
                return Copy(usable=False)
            raise _gone(job)
        if found["State"] == "error":
            message = f"snapshot {job.entry.handle} failed: {found.get('StateMessage') or 'AWS does not say why'}"
            raise ProviderError("SnapshotFailed", message, final=True)
        if found["State"] != "completed":
            return Copy(usable=False)
        others = (one["SnapshotId"] for one in self._all(client, job))
        self._delete(client, job, [one for one in others if one != job.entry.handle])
        return Copy(
            usable=True,
            bytes=found.get("FullSnapshotSizeInBytes"),
            volume_size=found["VolumeSize"] * GIB,
        )

    @provider_errors()
    def remove(self, job: Job) -> None:
        """Delete what has the job's tags, whether or not its handle was ever recorded."""
        client = self._client(job)
        ours = [one["SnapshotId"] for one in self._all(client, job)]
        handle = job.entry.handle
        if handle is not None and handle not in ours:
            found = self._one(client, handle)
            if found is not None and ebs_tags.is_ours(job, found):
                ours.append(handle)
            elif found is not None:
                log.warning(
                    "EBS snapshot %s does not have the tags of DedupeSnapshot %s/%s: left alone",
                    handle,
                    job.stream.metadata.namespace,
                    job.snapshot,
                )
        self._delete(client, job, ours)

    @provider_errors()
    def is_there(self, job: Job) -> bool:
        """Whether it is complete, and not in the archive, from where no volume can be made at once."""
        found = self._one(self._client(job), job.entry.handle)
        return found is not None and found["State"] == "completed" and not _is_archived(found)

    @provider_errors()
    def source(self, job: Job, claim_name: str) -> Source:
        """Make a volume of the snapshot, and a PersistentVolume that is the new claim's alone.

        Raises ProviderError, not final, for as long as the volume is being made.
        """
        client = self._client(job)
        restoring = Restoring(self._api, client, job, claim_name)
        if made := restoring.made():
            return made
        found = self._one(client, job.entry.handle)
        if found is None:
            raise _gone(job)
        if _is_archived(found):
            message = f"snapshot {job.entry.handle} is in the archive: restore it from there first"
            raise ProviderError("SnapshotArchived", message, final=True)
        return restoring.make(found)

    def _client(self, job: Job) -> "EC2Client":
        return self._ec2.client(ebs_tags.settings(job).region)

    def _volume_id(self, job: Job) -> str:
        """EC2's id of the partition's volume. Raises ProviderError, KubernetesError."""
        if job.claim is None:
            message = f"partition {job.partition} has no volume claim"
            raise ProviderError("NoVolume", message, final=False)
        claim = job.claim["metadata"]["name"]
        name = job.claim["spec"].get("volumeName")
        if not name:
            raise ProviderError("VolumeNotBound", f"claim {claim} has no volume yet", final=False)
        volume = self._api.get(PERSISTENT_VOLUMES, None, name)
        if volume is None:
            message = f"PersistentVolume {name} of claim {claim} is gone"
            raise ProviderError("VolumeGone", message, final=True)
        found = ebs_volumes.volume_id(volume)
        if found is None:
            driver = volume["spec"].get("csi", {}).get("driver") or "no CSI driver"
            message = (
                f"PersistentVolume {name} is not on Amazon EBS ({driver}): use spec.snapshots.provider "
                "CSI if that driver makes snapshots, else S3"
            )
            raise ProviderError("NotAnEbsVolume", message, final=True)
        return found

    def _wait_for_an_earlier_one(self, job: Job) -> None:
        if self._asked_within(self._settle_seconds, job):
            message = (
                "AWS was asked for a snapshot, and may not show it yet: no other is made so soon"
            )
            raise ProviderError("AwsUnavailable", message, final=False)

    def _may_not_be_shown_yet(self, job: Job) -> bool:
        entry = job.entry
        if entry.handle is None or entry.completed is not None:
            return False
        begun = entry.started is not None and datetime.now(UTC) - entry.started < _SHOWN_AFTER
        return begun or self._asked_within(_SHOWN_AFTER.total_seconds(), job)

    def _asked_within(self, seconds: float, job: Job) -> bool:
        since = self._asked.get((job.snapshot_uid, job.partition))
        return since is not None and monotonic() - since < seconds

    def _create(self, job: Job, volume_id: str) -> str:
        client = self._ec2.client_for_one_attempt(ebs_tags.settings(job).region)
        stream = ebs_tags.stream_name(job)
        asked, now = (job.snapshot_uid, job.partition), monotonic()
        for key, at in list(self._asked.items()):  # looks at other streams go on beside this one
            if now - at > _SHOWN_AFTER.total_seconds():
                self._asked.pop(key, None)
        self._asked[asked] = now
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
                self._asked.pop(asked, None)
            if code_of(error) == "InvalidVolume.NotFound":
                message = f"EBS volume {volume_id} is gone"
                raise ProviderError("VolumeGone", message, final=True) from error
            raise
        log.info("EBS snapshot %s of %s/%s begun", made["SnapshotId"], stream, job.partition)
        return made["SnapshotId"]

    def _all(self, client: "EC2Client", job: Job) -> "list[SnapshotTypeDef]":
        """The snapshots with the job's tags, oldest first: more than one if an answer was lost."""
        pages = client.get_paginator("describe_snapshots").paginate(
            OwnerIds=["self"],
            Filters=ebs_tags.snapshot_filters(job),
            PaginationConfig={"PageSize": _PAGE},
        )
        found = [one for page in pages for one in page["Snapshots"] if ebs_tags.is_ours(job, one)]
        return sorted(found, key=lambda one: (one["StartTime"], one["SnapshotId"]))

    def _one(self, client: "EC2Client", handle: str | None) -> "SnapshotTypeDef | None":
        """The snapshot of that id; None if there is none, or only in the recycle bin."""
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
    return ProviderError("SnapshotGone", message, final=True)


def _is_archived(found: "SnapshotTypeDef") -> bool:
    # One that was restored from the archive for a time says until when.
    return found.get("StorageTier") == "archive" and "RestoreExpiryTime" not in found
