"""Tags of EBS snapshots and volumes, by which the operator finds its own again.

The EBS provider and `restore` call it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dedupe_crds.annotations import PARTITION, STREAM
from dedupe_crds.spec.snapshots import EbsSnapshots
from dedupe_crds.spec.stream import GROUP, DedupeStream
from dedupe_operator.kubernetes.names import SNAPSHOT_UID, Object
from dedupe_operator.snapshots.provider import Job

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import (
        FilterTypeDef,
        SnapshotTypeDef,
        TagTypeDef,
        VolumeTypeDef,
    )

CLAIM: Final = f"{GROUP}/claim"
CLAIM_UID: Final = f"{GROUP}/claim-uid"
CLUSTER: Final = f"{GROUP}/cluster"
"""The UID of the cluster's namespace kube-system: clusters that share an account tell their volumes apart by it."""


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


def of_volume(job: Job, claim: Object, cluster: str) -> dict[str, str]:
    """Return all tags of a volume created for a claim of a cluster."""
    metadata = claim["metadata"]
    # The driver's IAM policy allows it to change and delete only volumes with this tag.
    driver = {"Name": metadata["name"], "ebs.csi.aws.com/cluster": "true"}
    ours = {CLAIM: _claim(claim), CLAIM_UID: metadata["uid"], CLUSTER: cluster}
    return driver | settings(job).tags | _owner(job) | ours


def snapshot_filters(job: Job) -> "list[FilterTypeDef]":
    """Return the filters for the partition's snapshots."""
    return [
        {"Name": f"tag:{SNAPSHOT_UID}", "Values": [job.snapshot_uid]},
        {"Name": f"tag:{PARTITION}", "Values": [str(job.partition)]},
    ]


def volume_filters(job: Job, claim: Object, snapshot_id: str) -> "list[FilterTypeDef]":
    """Return the filters for the volumes of a snapshot that were created for a claim."""
    return [
        {"Name": f"tag:{CLAIM_UID}", "Values": [claim["metadata"]["uid"]]},
        {"Name": f"tag:{SNAPSHOT_UID}", "Values": [job.snapshot_uid]},
        {"Name": "snapshot-id", "Values": [snapshot_id]},
    ]


def restored_filters(stream: DedupeStream) -> "list[FilterTypeDef]":
    """Return the filters for all volumes of a stream that restores made."""
    return [
        {"Name": f"tag:{STREAM}", "Values": [stream.shown]},
        {"Name": "tag-key", "Values": [CLAIM]},
    ]


def read(found: "SnapshotTypeDef | VolumeTypeDef") -> dict[str, str]:
    """Return the tags of a snapshot or volume."""
    return {tag.get("Key", ""): tag.get("Value", "") for tag in found.get("Tags", [])}


def is_ours(job: Job, found: "SnapshotTypeDef | VolumeTypeDef") -> bool:
    """Return whether a snapshot or volume was created for this job."""
    return _owner(job).items() <= read(found).items()


def is_of_partition(job: Job, found: "SnapshotTypeDef") -> bool:
    """Return whether a snapshot is of the job's partition, whichever object names it.

    In a new cluster a DedupeSnapshot that is applied again has another UID.
    """
    return of_partition(job).items() <= read(found).items()


def of_partition(job: Job) -> dict[str, str]:
    """Return the tags that tell whose store a snapshot holds."""
    return {STREAM: stream_name(job), PARTITION: str(job.partition)}


def as_list(tags: Mapping[str, str]) -> "Sequence[TagTypeDef]":
    """Return tags in EC2's form."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def stream_name(job: Job) -> str:
    """Return the stream's namespace and name."""
    return job.stream.shown


def _claim(claim: Object) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _owner(job: Job) -> dict[str, str]:
    return {
        **of_partition(job),
        f"{GROUP}/snapshot": job.snapshot,
        SNAPSHOT_UID: job.snapshot_uid,
    }
