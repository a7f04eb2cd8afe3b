"""What the operator says of a stream: the `status` of a `DedupeStream`.

Numbers that change all the time are rounded by the operator before they get here, so that a stream
in a steady state writes nothing to the API server.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.quantity import ByteSize, Duration

Count = Annotated[StrictInt, Field(ge=0)]


def keyed_by(key: str) -> dict[str, Any]:
    """A list whose items are merged by one of their fields, in server-side apply."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One aspect of the stream's health, in the form all Kubernetes objects share."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="Ready, Progressing, Degraded, WindowHealthy, SnapshotsHealthy or "
        "ReconciliationPaused."
    )
    status: ConditionStatus = Field(description="Whether it holds.")
    observed_generation: Count | None = Field(
        default=None, description="The metadata.generation it was judged by."
    )
    last_transition_time: datetime = Field(description="When status last changed.")
    reason: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="Why, in one CamelCase word."
    )
    message: Annotated[str, Field(max_length=32768)] = Field(
        description="Why, for people, and what to do."
    )


class PartitionPhase(StrEnum):
    """Where a partition is in its life. In the first, its volume claim is still to be made."""

    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    RESTORING = "Restoring"
    RECONCILING = "Reconciling"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    FAILED = "Failed"


class RestoreSource(StrEnum):
    """Where a partition's store came from, the rungs of the restore ladder in their order."""

    NOTHING = "Nothing"
    VOLUME = "Volume"
    SNAPSHOT = "Snapshot"
    CHECKPOINT = "Checkpoint"
    OUTPUT_TOPIC = "OutputTopic"


class Restore(Model):
    """How a partition got its store."""

    source: RestoreSource = Field(
        description="Nothing: a new stream. Volume: the bound volume. Snapshot: CSI or EBS. "
        "Checkpoint: files in S3. OutputTopic: rebuilt from the records in it."
    )
    name: str | None = Field(default=None, description="Name of the volume or snapshot.")
    reason: str = Field(description="Why this source, and why not a better one.")
    time: datetime = Field(description="When it was chosen.")
    refused: Annotated[list[str], Field(max_length=50)] = Field(
        default=[], description="Snapshots that were passed over, each with the reason."
    )
    request: str | None = Field(
        default=None, description="The user's request it was chosen by, if there was one."
    )


class Transfer(Model):
    """How far a store is on its way from a snapshot."""

    name: str = Field(description="What it comes from.")
    bytes: ByteSize = Field(description="Bytes that have arrived.")
    total_bytes: ByteSize = Field(description="Bytes of the whole.")
    remaining: Duration | None = Field(default=None, description="Estimated time to come.")


class Comparison(Model):
    """A reconcile that was asked for, and what it found."""

    request: str = Field(description="Which request it answers.")
    full: StrictBool = Field(
        default=False, description="Whether the whole store was compared, or only the tail read."
    )
    done: StrictBool = Field(default=False, description="Whether it is complete.")
    records: Count = Field(default=0, description="Output records read.")
    added: Count = Field(default=0, description="Ids that the store lacked.")
    removed: Count = Field(default=0, description="Ids that no output record has.")
    aged_out: Count = Field(
        default=0, description="Ids of output records that the window had given up before."
    )
    unverifiable: Count = Field(
        default=0, description="Ids whose output records are no longer retained."
    )
    error: str | None = Field(default=None, description="Why it could not be made.")


class Failover(Model):
    """A worker that was moved away from its node by force."""

    node: str = Field(description="The node it was on.")
    reason: str = Field(description="What was wrong with the node, and what was done.")
    time: datetime = Field(description="When its pod was deleted by force.")


class LastSnapshot(Model):
    """The newest usable snapshot of a partition."""

    name: str = Field(description="Name of the DedupeSnapshot.")
    time: datetime = Field(description="When it was taken.")


class PartitionStatus(Model):
    """One partition and its worker."""

    partition: Count = Field(description="Number of the partition, in both topics.")
    phase: PartitionPhase = Field(description="Where it is in its life.")
    ready: StrictBool = Field(default=False, description="Reconciled and passing messages on.")
    message: str | None = Field(default=None, description="Why it is not ready, and what to do.")
    node_name: str | None = Field(default=None, description="Node its worker runs on.")
    persistent_volume_claim: str | None = Field(
        default=None, description="Claim of the volume with its store."
    )
    restore: Restore | None = Field(default=None, description="How it got its store.")
    last_snapshot: LastSnapshot | None = Field(
        default=None, description="Its newest usable snapshot."
    )
    restoring: Transfer | None = Field(
        default=None, description="How far its restore is, while it is on its way."
    )
    reconciling: Count | None = Field(
        default=None, description="Output records still to read before it is ready, an upper bound."
    )
    reconcile_remaining: Duration | None = Field(
        default=None, description="Estimated time until they are read."
    )
    comparison: Comparison | None = Field(
        default=None, description="The last reconcile that was asked for."
    )
    failover: Failover | None = Field(
        default=None, description="When it was last moved away from a node by force."
    )
    window: Duration | None = Field(default=None, description="Age of its oldest id.")
    window_truncated: StrictBool | None = Field(
        default=None, description="Ids were lost, so the window is shorter than it was."
    )
    duplicates: Count | None = Field(
        default=None, description="Duplicates found since the worker started."
    )
    lag_messages: Count | None = Field(
        default=None, description="Messages to come, an upper bound."
    )


class StreamStatus(Model):
    """What the operator last saw of the stream."""

    observed_generation: Count | None = Field(
        default=None, description="The metadata.generation this status is about."
    )
    conditions: Annotated[list[Condition], Field(json_schema_extra=keyed_by("type"))] = Field(
        default=[], description="The stream's health."
    )
    last_schedule_time: datetime | None = Field(
        default=None, description="The last time of spec.snapshots.schedule that was seen to."
    )
    partitions_ready: str | None = Field(
        default=None, description="Ready partitions of all, such as 3/4."
    )
    partitions: Annotated[list[PartitionStatus], Field(json_schema_extra=keyed_by("partition"))] = (
        Field(default=[], description="Each partition and its worker.")
    )
    window: Duration | None = Field(
        default=None, description="Shortest window of all partitions: age of the oldest id."
    )
    duplicates: Count | None = Field(
        default=None, description="Duplicates found by all workers since they started."
    )
    lag_messages: Count | None = Field(
        default=None, description="Messages to come in all partitions, an upper bound."
    )
