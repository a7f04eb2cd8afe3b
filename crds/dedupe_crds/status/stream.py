"""Models of the `status` of a `DedupeStream`, written by the operator.

The operator rounds numbers that change all the time, so that an idle stream causes no writes to the API server.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from dedupe_crds.base import Model, keyed_by
from dedupe_crds.quantity import ByteSize, Duration
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_crds.status.growth import GrowthStatus

Count = Annotated[StrictInt, Field(ge=0)]


class ConditionStatus(StrEnum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """An aspect of the stream's health, a condition as in other Kubernetes objects."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="Ready, Progressing, Reconciling, Stalled, Degraded, WindowHealthy, GuaranteesMet, "
        "InputPartitionsAdded, InputPartitioning, SnapshotsHealthy, Growing or ReconciliationPaused."
    )
    status: ConditionStatus = Field(description="True, False or Unknown.")
    observed_generation: Count | None = Field(
        default=None, description="The metadata.generation that the condition is about."
    )
    last_transition_time: datetime = Field(description="Time of the last change of status.")
    reason: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="Reason, a CamelCase word."
    )
    message: Annotated[str, Field(max_length=32768)] = Field(
        description="Explanation, and what to do."
    )


class PartitionPhase(StrEnum):
    """Phase of a partition. While Provisioning, its volume claim does not exist yet."""

    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    RESTORING = "Restoring"
    RECONCILING = "Reconciling"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    FAILED = "Failed"


class RestoreSource(StrEnum):
    """Source of a partition's store, in the order in which they are tried."""

    NOTHING = "Nothing"
    VOLUME = "Volume"
    SNAPSHOT = "Snapshot"
    CHECKPOINT = "Checkpoint"
    OUTPUT_TOPIC = "OutputTopic"


class Restore(Model):
    """Source of the partition's store."""

    source: RestoreSource = Field(
        description="Nothing: an empty store of a new stream. Volume: the existing volume. Snapshot: CSI or "
        "EBS. Checkpoint: files in S3. OutputTopic: rebuilt from the output topic."
    )
    name: str | None = Field(default=None, description="Name of the volume or snapshot.")
    location: CopyLocation | None = Field(default=None, description="Location of files in S3.")
    reason: str = Field(description="Reason for this source, and for not using a better one.")
    time: datetime = Field(description="Time at which the source was chosen.")
    refused: Annotated[list[str], Field(max_length=50)] = Field(
        default=[],
        description="Snapshots that were skipped, the newest ones, each with the reason.",
    )
    # None, not an empty mapping: an operator of the release before reads a status without it.
    tried: dict[str, str] | None = Field(
        default=None,
        description="Snapshots from which a restore of this volume failed, each with the reason: none is tried again.",
    )
    request: str | None = Field(
        default=None, description="The user's restore request that this answers, if there was one."
    )


class Transfer(Model):
    """Progress of the restore from a snapshot."""

    name: str = Field(description="Name of the snapshot.")
    bytes: ByteSize = Field(description="Bytes that are restored.")
    total_bytes: ByteSize = Field(description="Total bytes to restore.")
    remaining: Duration | None = Field(default=None, description="Estimated time left.")


class Comparison(Model):
    """A reconcile that a user requested, and its result."""

    request: str = Field(description="The request that this answers.")
    full: StrictBool = Field(
        default=False,
        description="True for a full reconcile; otherwise only the tail of the output topic was read.",
    )
    done: StrictBool = Field(default=False, description="True if it is complete.")
    records: Count = Field(default=0, description="Number of output records read.")
    added: Count = Field(
        default=0, description="Number of ids that were missing in the store and were added."
    )
    removed: Count = Field(
        default=0, description="Number of ids that no output record has and that were removed."
    )
    aged_out: Count = Field(
        default=0,
        description="Number of ids of output records that the window had already evicted.",
    )
    unverifiable: Count = Field(
        default=0, description="Number of ids whose output records Kafka no longer retains."
    )
    error: str | None = Field(default=None, description="Reason for its failure.")


class Failover(Model):
    """The last failover of a worker from its node."""

    node: str = Field(description="The node that the worker ran on.")
    reason: str = Field(description="The problem of the node, and the actions taken.")
    time: datetime = Field(description="Time at which its pod was force-deleted.")


class LastSnapshot(Model):
    """The newest usable snapshot of a partition."""

    name: str = Field(description="Name of the DedupeSnapshot.")
    time: datetime = Field(description="Time at which it was taken.")


class PartitionStatus(Model):
    """Status of a partition and its worker."""

    partition: Count = Field(description="Partition number, in the input and in the output topic.")
    phase: PartitionPhase = Field(description="Phase of the partition.")
    ready: StrictBool = Field(
        default=False, description="True if its store has caught up and its worker passes messages."
    )
    message: str | None = Field(
        default=None, description="Reason why it is not ready, and what to do."
    )
    node_name: str | None = Field(default=None, description="Node that its worker runs on.")
    persistent_volume_claim: str | None = Field(
        default=None, description="PersistentVolumeClaim of the volume with its store."
    )
    restore: Restore | None = Field(default=None, description="Source of its store.")
    last_snapshot: LastSnapshot | None = Field(
        default=None, description="Its newest usable snapshot."
    )
    restoring: Transfer | None = Field(
        default=None, description="Progress of its restore, while it runs."
    )
    reconciling: Count | None = Field(
        default=None, description="Output records left to read before it is ready, an upper bound."
    )
    reconcile_remaining: Duration | None = Field(
        default=None, description="Estimated time left until they are read."
    )
    comparison: Comparison | None = Field(
        default=None, description="The last catch-up or full reconcile that a user requested."
    )
    failover: Failover | None = Field(default=None, description="The last failover of its worker.")
    window: Duration | None = Field(default=None, description="Age of the oldest id in its store.")
    window_truncated: StrictBool | None = Field(
        default=None,
        description="True if ids were lost, so that the window is shorter than before.",
    )
    degraded: list[str] = Field(
        default=[],
        description="Guarantees that its worker does not meet although it runs, such as WindowShortened. "
        "A state is listed while it lasts, an event for 24 hours or until a restart.",
    )
    duplicates: Count | None = Field(
        default=None, description="Number of duplicates found since its worker started."
    )
    lag_messages: Count | None = Field(
        default=None, description="Lag: messages left to process, an upper bound."
    )


class AddedPartition(Model):
    """A partition that was added to the input, and has no worker."""

    partition: Count = Field(description="Partition number, in the input topic.")
    lag_messages: Count | None = Field(
        default=None, description="Lag: messages that wait in it, an upper bound."
    )


class RoutersInput(Model):
    """An input topic that the routers read."""

    topic: str = Field(description="The input topic.")
    lag_messages: Count | None = Field(
        default=None, description="Messages that no router has routed yet, an upper bound."
    )


class RoutersStatus(Model):
    """The routers of a stream with spec.repartition."""

    replicas: Count = Field(description="Wanted number of routers.")
    ready: Count = Field(default=0, description="Number of routers that are ready.")
    inputs: Annotated[list[RoutersInput], Field(json_schema_extra=keyed_by("topic"))] = Field(
        default=[], description="The input topics that they read."
    )
    held_records: Count | None = Field(
        default=None,
        description="Records of the repartition topic that no worker has read, an upper bound.",
    )
    held_bytes: ByteSize | None = Field(
        default=None, description="Estimated size of these records."
    )
    epoch: Count = Field(default=0, description="Number of the partitioning in force.")
    reason: str | None = Field(
        default=None, description="Reason of their first problem, a CamelCase word."
    )
    message: str | None = Field(
        default=None, description="Explanation of the reason, and what to do."
    )


class StreamStatus(Model):
    """The observed state of the stream."""

    observed_generation: Count | None = Field(
        default=None, description="The metadata.generation that this status is about."
    )
    conditions: Annotated[list[Condition], Field(json_schema_extra=keyed_by("type"))] = Field(
        default=[], description="Conditions of the stream."
    )
    reason: str | None = Field(
        default=None,
        description="Reason of the most important problem, a CamelCase word; absent if all is well.",
    )
    last_schedule_time: datetime | None = Field(
        default=None, description="Last time of spec.snapshots.schedule that was processed."
    )
    partitions_ready: str | None = Field(
        default=None, description="Ready and total partitions, such as 3/4."
    )
    partitions: Annotated[list[PartitionStatus], Field(json_schema_extra=keyed_by("partition"))] = (
        Field(default=[], description="Status of the first 100 partitions and their workers.")
    )
    partition_count: Count | None = Field(
        default=None,
        description="Number of all partitions, if objects DedupeStreamPartitions have the status of further ones.",
    )
    # None, not an empty list: an operator of the release before reads a status without it.
    added_partitions: Annotated[
        list[AddedPartition] | None, Field(json_schema_extra=keyed_by("partition"))
    ] = Field(
        default=None,
        description="The first 100 added partitions of the input that wait for spec.input.addedPartitions: Accept.",
    )
    topic_ids: Annotated[list[str] | None, Field(max_length=64)] = Field(
        default=None,
        description="UUIDs of the topics that only this stream may write to, once they are known. With brokers "
        "without topic ids: address of the brokers and name of the topic.",
    )
    routers: RoutersStatus | None = Field(
        default=None, description="The routers, of a stream with spec.repartition."
    )
    growth: GrowthStatus | None = Field(
        default=None,
        description="The present growth of spec.repartition.partitions, or the last one; absent if it never grew.",
    )
    window: Duration | None = Field(
        default=None,
        description="Shortest window of all partitions. A window is the age of the oldest id.",
    )
    duplicates: Count | None = Field(
        default=None, description="Number of duplicates that all workers found since they started."
    )
    duplicates_share: str | None = Field(
        default=None,
        description="Share of duplicates in all messages that the workers read since they started, such as 5%.",
    )
    lag_messages: Count | None = Field(
        default=None,
        description="Lag of all partitions: messages left to process, an upper bound. With routers also what they have "
        "not routed yet.",
    )
