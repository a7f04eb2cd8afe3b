"""`DedupeSnapshot`: one copy of the stores of one stream, made by its schedule or by a user."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import StreamName
from dedupe_crds.quantity import ByteSize, Duration
from dedupe_crds.rules import never_changes
from dedupe_crds.spec.store import SnapshotProvider
from dedupe_crds.status.stream import Count, keyed_by

KIND = "DedupeSnapshot"


class SnapshotPhase(StrEnum):
    """Where a snapshot, or one partition of it, is in its life."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        """Whether it stays as it is."""
        return self in {SnapshotPhase.COMPLETED, SnapshotPhase.FAILED}


class StreamRef(Model):
    """A DedupeStream in the snapshot's namespace."""

    name: StreamName = Field(description="Name of the DedupeStream.")


class SnapshotSpec(Model):
    """What is to be copied."""

    stream_ref: StreamRef = Field(description="The stream whose stores are copied.")
    partitions: Annotated[
        list[Annotated[StrictInt, Field(ge=0, le=65535)]], Field(max_length=1024)
    ] = Field(default=[], description="Partitions to copy; all of them if empty.")


class PartitionSnapshot(Model):
    """The copy of one partition's store, and what it is complete up to."""

    partition: Count = Field(description="Number of the partition.")
    phase: SnapshotPhase = Field(description="Where it is in its life.")
    handle: str | None = Field(
        default=None,
        description="What the provider calls it: a VolumeSnapshot, an EBS snapshot, an object in a bucket.",
    )
    input_topic_id: str | None = Field(
        default=None, description="UUID of the input topic it was made from."
    )
    output_topic_id: str | None = Field(
        default=None, description="UUID of the output topic it was made from."
    )
    input_offset: int | None = Field(
        default=None, description="The input offset that comes after it; -1 if it is not known."
    )
    output_position: Count | None = Field(
        default=None, description="The output offset up to which it holds every id."
    )
    keys: Count | None = Field(default=None, description="Ids in it.")
    window: Duration | None = Field(default=None, description="Age of its oldest id.")
    bytes: ByteSize | None = Field(default=None, description="Size of the copy.")
    uploaded_bytes: ByteSize | None = Field(
        default=None, description="What of it had to be uploaded, with provider: S3."
    )
    volume_size: ByteSize | None = Field(
        default=None, description="Least size of a volume made from it."
    )
    started: datetime | None = Field(default=None, description="When it was begun.")
    completed: datetime | None = Field(default=None, description="When it was found usable.")
    error: str | None = Field(default=None, description="Why it failed.")


class SnapshotStatus(Model):
    """What the operator did for it. `Completed` is a snapshot whose partitions all are."""

    phase: SnapshotPhase = Field(
        default=SnapshotPhase.PENDING, description="Where it is in its life."
    )
    provider: SnapshotProvider | None = Field(default=None, description="Who keeps it.")
    progress: str | None = Field(
        default=None, description="Partitions completed of all, such as 3/4."
    )
    size: str | None = Field(
        default=None, description="Size of all copies together, rounded for people."
    )
    started: datetime | None = Field(default=None, description="When it was begun.")
    completed: datetime | None = Field(default=None, description="When it was complete, or failed.")
    reason: str | None = Field(default=None, description="Why it failed, in CamelCase.")
    message: str | None = Field(default=None, description="Why it failed, and what to do.")
    partitions: Annotated[
        list[PartitionSnapshot], Field(json_schema_extra=keyed_by("partition"))
    ] = Field(default=[], description="Each partition's copy.")


class SnapshotMetadata(Model):
    """The object's metadata, as far as it matters here."""

    name: str = Field(description="Name of the snapshot.")
    namespace: str = Field(
        default="default", description="Namespace of the snapshot and its stream."
    )
    uid: str | None = Field(default=None, description="Given by the API server.")


class DedupeSnapshot(Model):
    """One copy of the stores of a stream, from which a lost volume is restored."""

    api_version: Literal["dedupestream.io/v1alpha1"] = Field(description="Version of this API.")
    kind: Literal["DedupeSnapshot"] = Field(description="What this object is.")
    metadata: SnapshotMetadata = Field(description="Its name and namespace.")
    spec: Annotated[
        SnapshotSpec, never_changes("the spec of a snapshot", "make another snapshot instead")
    ] = Field(description="What is to be copied.")
