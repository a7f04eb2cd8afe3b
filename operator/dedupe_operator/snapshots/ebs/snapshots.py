"""EC2's snapshots of a partition: found by their tags, created once, deleted.

The EBS provider calls it.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from dedupe_operator.snapshots.ebs import tags as ebs_tags
from dedupe_operator.snapshots.ebs.client import Ec2, code_of, may_have_acted
from dedupe_operator.snapshots.provider import Job, ProviderError, ProviderFailed

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import SnapshotTypeDef

_NOT_FOUND: Final = "InvalidSnapshot.NotFound"
# EC2 may not list a new snapshot for this time (eventual consistency); seconds, as a rule.
_SHOWN_AFTER: Final = timedelta(minutes=5)
_PAGE: Final = 1000
_LONGEST_DESCRIPTION: Final = 255

log = logging.getLogger(__name__)


class Ec2Snapshots:
    """Calls about snapshots; each raises ProviderError, ClientError, BotoCoreError.

    CreateSnapshot is not idempotent: after a call whose answer was lost, it creates none for
    `eventual_consistency_seconds`; by then AWS lists the result. `clock` returns seconds and never goes backward; `now`
    returns the time in UTC.
    """

    def __init__(
        self,
        ec2: Ec2,
        *,
        eventual_consistency_seconds: float,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._ec2 = ec2
        self._eventual_consistency_seconds = eventual_consistency_seconds
        self._clock = clock
        self._now = now
        self._requested_at: dict[tuple[str, int], float] = {}  # when, by `clock`

    def check_no_lost_answer(self, job: Job) -> None:
        """Raise ProviderError while an unlisted snapshot may exist."""
        if self._requested_within(self._eventual_consistency_seconds, job):
            message = "the answer of AWS to CreateSnapshot was lost, and the snapshot may not be listed yet"
            raise ProviderError("AwsUnavailable", message)

    def may_not_be_shown_yet(self, job: Job) -> bool:
        """Return whether EC2 may not list a snapshot yet that was just created."""
        entry = job.entry
        if entry.handle is None or entry.completed is not None:
            return False
        begun = entry.started is not None and self._now() - entry.started < _SHOWN_AFTER
        return begun or self._requested_within(_SHOWN_AFTER.total_seconds(), job)

    def _requested_within(self, seconds: float, job: Job) -> bool:
        since = self._requested_at.get((job.snapshot_uid, job.partition))
        return since is not None and self._clock() - since < seconds

    def create(self, job: Job, volume_id: str) -> str:
        """Create a snapshot of a volume; return its id."""
        client = self._ec2.client_for_one_attempt(region_of(job))
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

    def all(self, client: "EC2Client", job: Job) -> "list[SnapshotTypeDef]":
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

    def one(self, client: "EC2Client", handle: str | None) -> "SnapshotTypeDef | None":
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

    def delete(self, client: "EC2Client", job: Job, snapshot_ids: list[str]) -> None:
        """Delete snapshots; ignore those that are gone."""
        for snapshot_id in snapshot_ids:
            try:
                client.delete_snapshot(SnapshotId=snapshot_id)
            except ClientError as error:
                if code_of(error) != _NOT_FOUND:
                    raise
            stream = ebs_tags.stream_name(job)
            log.info("EBS snapshot %s of %s/%s deleted", snapshot_id, stream, job.partition)


def region_of(job: Job) -> str | None:
    """Return the region in which the copy lies; None: that of the environment."""
    location = job.entry.location
    return location.region if location else ebs_tags.settings(job).region


def gone(job: Job) -> ProviderError:
    """Return that the copy does not exist."""
    message = f"EBS snapshot {job.entry.handle} is gone"
    return ProviderFailed("SnapshotGone", message)


def not_ours(job: Job) -> ProviderError:
    """Return that the copy is of another partition."""
    wanted = " and ".join(f"{k}={v}" for k, v in ebs_tags.of_partition(job).items())
    message = f"EBS snapshot {job.entry.handle} does not have the tags {wanted}"
    return ProviderFailed("SnapshotNotOurs", message)


def is_archived(found: "SnapshotTypeDef") -> bool:
    """Return whether a snapshot must be restored from the archive first."""
    # RestoreExpiryTime: the snapshot is restored from the archive until then.
    return found.get("StorageTier") == "archive" and "RestoreExpiryTime" not in found
