"""Tags of EBS snapshots and volumes, by which the operator finds its own again.

The EBS provider and `restore` call it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dedupe_crds.annotations import PARTITION, STREAM
from dedupe_crds.spec.snapshots import EbsSnapshots
from dedupe_crds.spec.stream import GROUP
from dedupe_operator.kubernetes.names import SNAPSHOT_UID
from dedupe_operator.snapshots.provider import Job

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import (
        FilterTypeDef,
        SnapshotTypeDef,
        TagTypeDef,
        VolumeTypeDef,
    )

CLAIM: Final = f"{GROUP}/claim"


def settings(job: Job) -> EbsSnapshots:
    """Return the stream's EBS settings, the defaults for another provider."""
    snapshots = job.stream.spec.snapshots
    return snapshots.ebs if snapshots else EbsSnapshots()


def of_snapshot(job: Job) -> dict[str, str]:
    """Return all tags of a snapshot: its owner and its checkpoint's metadata."""
    entry = job.entry
    metadata = {
        "input-topic-id": entry.input_topic_id,
        "output-topic-id": entry.output_topic_id,
        "input-offset": entry.input_offset,
        "output-position": entry.output_position,
        "keys": entry.keys,
    }
    known = {f"{GROUP}/{name}": str(value) for name, value in metadata.items() if value is not None}
    name = {"Name": f"{stream_name(job)}-{job.partition}"}
    return name | settings(job).tags | known | _owner(job)


def of_volume(job: Job, claim: str) -> dict[str, str]:
    """Return all tags of a volume created for a claim."""
    # The driver's IAM policy allows it to change and delete only volumes with this tag.
    driver = {"Name": claim, "ebs.csi.aws.com/cluster": "true"}
    return driver | settings(job).tags | _owner(job) | {CLAIM: _claim(job, claim)}


def snapshot_filters(job: Job) -> "list[FilterTypeDef]":
    """Return the filters for the partition's snapshots."""
    return [
        {"Name": f"tag:{SNAPSHOT_UID}", "Values": [job.snapshot_uid]},
        {"Name": f"tag:{PARTITION}", "Values": [str(job.partition)]},
    ]


def volume_filters(job: Job, claim: str, snapshot_id: str) -> "list[FilterTypeDef]":
    """Return the filters for the volumes of a snapshot that were created for a claim."""
    return [
        {"Name": f"tag:{CLAIM}", "Values": [_claim(job, claim)]},
        {"Name": f"tag:{SNAPSHOT_UID}", "Values": [job.snapshot_uid]},
        {"Name": "snapshot-id", "Values": [snapshot_id]},
    ]


def is_ours(job: Job, found: "SnapshotTypeDef | VolumeTypeDef") -> bool:
    """Return whether a snapshot or volume was created for this job."""
    tags = {tag.get("Key"): tag.get("Value") for tag in found.get("Tags", [])}
    return _owner(job).items() <= tags.items()


def is_of_partition(job: Job, found: "SnapshotTypeDef") -> bool:
    """Return whether a snapshot is of the job's partition, whichever object names it.

    In a new cluster a DedupeSnapshot that is applied again has another UID.
    """
    tags = {tag.get("Key"): tag.get("Value") for tag in found.get("Tags", [])}
    return of_partition(job).items() <= tags.items()


def of_partition(job: Job) -> dict[str, str]:
    """Return the tags that tell whose store a snapshot holds."""
    return {STREAM: stream_name(job), PARTITION: str(job.partition)}


def as_list(tags: Mapping[str, str]) -> "Sequence[TagTypeDef]":
    """Return tags in EC2's form."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def stream_name(job: Job) -> str:
    """Return the stream's namespace and name."""
    return job.stream.shown


def _claim(job: Job, claim: str) -> str:
    return f"{job.stream.metadata.namespace}/{claim}"


def _owner(job: Job) -> dict[str, str]:
    return {
        **of_partition(job),
        f"{GROUP}/snapshot": job.snapshot,
        SNAPSHOT_UID: job.snapshot_uid,
    }
