"""The tags by which snapshots and volumes of Amazon EBS are found again, and known to be ours."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dedupe_crds.spec.store import EbsSnapshots
from dedupe_crds.spec.stream import GROUP
from dedupe_operator.snapshots.provider import Job

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import (
        FilterTypeDef,
        SnapshotTypeDef,
        TagTypeDef,
        VolumeTypeDef,
    )

SNAPSHOT_UID: Final = f"{GROUP}/snapshot-uid"
PARTITION: Final = f"{GROUP}/partition"
STREAM: Final = f"{GROUP}/stream"
CLAIM: Final = f"{GROUP}/claim"


def settings(job: Job) -> EbsSnapshots:
    """What the stream says of EBS; the defaults, if it keeps its snapshots elsewhere by now."""
    snapshots = job.stream.spec.snapshots
    return snapshots.ebs if snapshots else EbsSnapshots()


def of_snapshot(job: Job) -> dict[str, str]:
    """All tags of a partition's snapshot: whose it is, and what it is complete up to."""
    entry = job.entry
    stamp = {
        "input-topic-id": entry.input_topic_id,
        "output-topic-id": entry.output_topic_id,
        "input-offset": entry.input_offset,
        "output-position": entry.output_position,
        "keys": entry.keys,
    }
    known = {f"{GROUP}/{name}": str(value) for name, value in stamp.items() if value is not None}
    name = {"Name": f"{stream_name(job)}-{job.partition}"}
    return name | settings(job).tags | known | _owner(job)


def of_volume(job: Job, claim: str) -> dict[str, str]:
    """All tags of the volume made for a claim."""
    # The driver's own policies let it change and delete only what carries its tag.
    driver = {"Name": claim, "ebs.csi.aws.com/cluster": "true"}
    return driver | settings(job).tags | _owner(job) | {CLAIM: _claim(job, claim)}


def snapshot_filters(job: Job) -> "list[FilterTypeDef]":
    """What finds the partition's snapshots."""
    return [
        {"Name": f"tag:{SNAPSHOT_UID}", "Values": [job.snapshot_uid]},
        {"Name": f"tag:{PARTITION}", "Values": [str(job.partition)]},
    ]


def volume_filters(job: Job, claim: str, snapshot_id: str) -> "list[FilterTypeDef]":
    """What finds the volumes made of a snapshot for a claim."""
    return [
        {"Name": f"tag:{CLAIM}", "Values": [_claim(job, claim)]},
        {"Name": f"tag:{SNAPSHOT_UID}", "Values": [job.snapshot_uid]},
        {"Name": "snapshot-id", "Values": [snapshot_id]},
    ]


def is_ours(job: Job, found: "SnapshotTypeDef | VolumeTypeDef") -> bool:
    """Whether something was made for this very job."""
    tags = {tag.get("Key"): tag.get("Value") for tag in found.get("Tags", [])}
    return _owner(job).items() <= tags.items()


def as_list(tags: Mapping[str, str]) -> "Sequence[TagTypeDef]":
    """Tags as EC2 takes them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def stream_name(job: Job) -> str:
    """The stream's namespace and name."""
    return f"{job.stream.metadata.namespace}/{job.stream.metadata.name}"


def _claim(job: Job, claim: str) -> str:
    return f"{job.stream.metadata.namespace}/{claim}"


def _owner(job: Job) -> dict[str, str]:
    return {
        STREAM: stream_name(job),
        PARTITION: str(job.partition),
        f"{GROUP}/snapshot": job.snapshot,
        SNAPSHOT_UID: job.snapshot_uid,
    }
