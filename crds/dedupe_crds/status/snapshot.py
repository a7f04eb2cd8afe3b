"""`DedupeSnapshot`: a copy of a stream's stores, made by schedule or by a user."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from dedupe_crds.base import Model, keyed_by
from dedupe_crds.names import ObjectName, StreamName
from dedupe_crds.quantity import ByteSize, Duration
from dedupe_crds.rules import never_changes
from dedupe_crds.spec.metadata import Metadata
from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_crds.status.stream import Count

KIND = "DedupeSnapshot"


class SnapshotPhase(StrEnum):
    """Phase of a snapshot, or of a partition in it."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        """Return whether this phase does not change any more."""
        return self in {SnapshotPhase.COMPLETED, SnapshotPhase.FAILED}


class StreamRef(Model):
    """A DedupeStream in the snapshot's namespace."""

    name: StreamName = Field(description="Name of the DedupeStream.")


class SnapshotSpec(Model):
    """The stream and the partitions to copy."""

    stream_ref: StreamRef = Field(description="The stream whose stores are copied.")
    partitions: Annotated[
        list[Annotated[StrictInt, Field(ge=0, le=65535)]], Field(max_length=1024)
    ] = Field(default=[], description="Partitions to copy. Default: all.")


class PartitionSnapshot(Model):
    """The copy of a partition's store, and the offsets up to which it is complete."""

    partition: Count = Field(description="Partition number.")
    phase: SnapshotPhase = Field(description="Phase of the copy.")
    handle: str | None = Field(
        default=None,
        description="The provider's id of it: a VolumeSnapshot, an EBS snapshot, an object in a bucket.",
    )
    location: CopyLocation | None = Field(
        default=None,
        description="Location of a copy outside of the cluster, recorded before it is made. It is read and deleted "
        "there, whatever the settings of the stream are now.",
    )
    input_topic_id: str | None = Field(
        default=None, description="UUID of the input topic of its ids."
    )
    output_topic_id: str | None = Field(
        default=None, description="UUID of the output topic of its ids."
    )
    input_offset: int | None = Field(
        default=None, description="The next input offset after the copy; -1 if it is not known."
    )
    output_position: Count | None = Field(
        default=None, description="The output offset up to which it has all ids."
    )
    keys: Count | None = Field(default=None, description="Number of ids in the copy.")
    window: Duration | None = Field(default=None, description="Age of the oldest id in the copy.")
    bytes: ByteSize | None = Field(default=None, description="Size of the copy.")
    uploaded_bytes: ByteSize | None = Field(
        default=None,
        description="Bytes that were uploaded, with provider: S3; the rest was already in the bucket.",
    )
    volume_size: ByteSize | None = Field(
        default=None, description="Minimum size of a volume that is made from it."
    )
    started: datetime | None = Field(default=None, description="Time at which it was started.")
    completed: datetime | None = Field(
        default=None, description="Time at which it was found usable."
    )
    error: str | None = Field(default=None, description="Reason of the failure.")
    unreachable: str | None = Field(
        default=None,
        description="Reason why the copy can't be read, or deleted, where it lies; it is not restored from meanwhile.",
    )


class SnapshotStatus(Model):
    """The observed state of the snapshot; it is Completed if all its partitions are."""

    phase: SnapshotPhase = Field(
        default=SnapshotPhase.PENDING, description="Phase of the snapshot."
    )
    provider: SnapshotProvider | None = Field(default=None, description="Provider of the snapshot.")
    progress: str | None = Field(
        default=None, description="Completed and total partitions, such as 3/4."
    )
    size: str | None = Field(default=None, description="Total size of all copies, rounded.")
    started: datetime | None = Field(default=None, description="Time at which it was started.")
    completed: datetime | None = Field(
        default=None, description="Time at which it was completed or failed."
    )
    reason: str | None = Field(default=None, description="Reason of the failure, a CamelCase word.")
    message: str | None = Field(
        default=None, description="Explanation of the failure, and what to do."
    )
    partitions: Annotated[
        list[PartitionSnapshot], Field(json_schema_extra=keyed_by("partition"))
    ] = Field(default=[], description="The copy of each partition.")


class SnapshotMetadata(Metadata):
    """The fields of the object's metadata that a snapshot needs."""

    name: ObjectName = Field(description="Name of the snapshot.")


class DedupeSnapshot(Model):
    """A copy of a stream's stores, from which lost volumes are restored."""

    api_version: Literal["dedupestream.io/v1alpha1"] = Field(description="API version.")
    kind: Literal["DedupeSnapshot"] = Field(description="Kind of the object.")
    metadata: SnapshotMetadata = Field(description="Name and namespace.")
    spec: Annotated[
        SnapshotSpec, never_changes("the spec of a snapshot", "create another snapshot instead")
    ] = Field(description="The stream and the partitions to copy.")
