"""Models of a worker's GET /status.

The operator, the kubectl plugin and the local runner read them. Invariant: a reader ignores fields of a newer worker,
so workers and readers can be upgraded in any order.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from dedupe_crds.status.key_sample import KeySample
from dedupe_crds.status.report import Report


class Phase(StrEnum):
    """Phase of a worker."""

    STARTING = "Starting"
    RESTORING = "Restoring"
    RECONCILING = "Reconciling"
    RUNNING = "Running"
    STOPPING = "Stopping"
    FAILED = "Failed"


class InputStatus(Report):
    """Position of the worker in its input partition."""

    topic: str = Field(description="The input topic.")
    partitions: int | None = Field(
        default=None, description="Partition count of the topic, as last described."
    )
    keys: KeySample | None = Field(
        default=None, description="How the newest records came to this partition."
    )
    next_offset: int = Field(description="The next offset to read.")
    end_offset: int | None = Field(
        default=None, description="The last stable offset of the partition, if it is known."
    )
    lag_messages: int | None = Field(
        default=None,
        description="endOffset - nextOffset: an upper bound of the messages left to process, because "
        "transactions leave gaps in the offsets.",
    )


class OutputStatus(Report):
    """Position of the worker in its output partition."""

    topic: str = Field(description="The output topic.")
    position: int | None = Field(
        default=None, description="The output offset up to which the store has all ids."
    )


class Counts(Report):
    """Counters since the process started."""

    consumed: int = Field(default=0, description="Records read.")
    produced: int = Field(default=0, description="Records written to the output and committed.")
    duplicates: int = Field(default=0, description="Records whose id was already known.")
    redelivered: int = Field(
        default=0,
        description="Records that were read again and whose output was already committed.",
    )
    sent_on: int = Field(
        default=0,
        description="Records that were another partition's after a growth, and were sent on to it.",
    )
    conflicts: int = Field(
        default=0,
        description="Duplicates whose content differs from that of the record they repeat.",
    )
    late: int = Field(
        default=0, description="Records older than the window: passed, or routed to a topic."
    )
    without_id: int = Field(default=0, description="Records without an id, which pass.")
    missing_ids: dict[str, int] = Field(
        default_factory=dict,
        description="The records without an id by why, a CamelCase word such as HeaderAbsent.",
    )
    transactions: int = Field(default=0, description="Transactions committed.")
    aborted_transactions: int = Field(default=0, description="Transactions aborted.")


class WindowStatus(Report):
    """The window: the ids in the store."""

    seconds: float = Field(
        description="Age of the oldest id in the store; of an inverse Bloom filter, the age at which half of the "
        "ids are lost."
    )
    bytes: int = Field(description="Disk space of the ids.")
    keys: int = Field(description="Number of ids, as the store estimates it.")
    generations: int = Field(description="Number of generations with ids.")
    truncated: bool = Field(
        description="Ids younger than the window were lost, or evicted because of maxBytes."
    )
    healthy: bool = Field(description="The window is longer than alertBelow, or still filling.")


class IdOwner(Report):
    """The record that an id was first seen in."""

    topic: str | None = Field(
        default=None, description="Topic of the input; only with spec.repartition."
    )
    partition: int = Field(description="Partition of the input.")
    offset: int = Field(description="Offset in that partition.")


class IdStatus(Report):
    """The entry of an id in the store."""

    id: str = Field(description="The id, as in the request.")
    known: bool = Field(description="A message with this id is a duplicate.")
    owner: IdOwner | None = Field(
        default=None, description="The record in which it was first seen, if that is known."
    )
    timestamp: datetime | None = Field(
        default=None, description="Timestamp of that record; only if duplicates are routed."
    )
    generation: str | None = Field(default=None, description="Generation of the store that has it.")
    seen_after: datetime | None = Field(
        default=None, description="Time of the first id in that generation."
    )
    seen_before: datetime | None = Field(
        default=None, description="Time of the last id in that generation."
    )


class ReconcileStatus(Report):
    """The catch-up of the store with the output topic at the current or last start."""

    reason: str = Field(description="Reason for the range that is read, a CamelCase word.")
    records: int = Field(description="Number of records read so far.")
    remaining: int = Field(description="Offsets left to read, an upper bound of the records.")
    seconds: float = Field(description="Time taken so far.")


class CheckpointStatus(Report):
    """The newest checkpoint."""

    path: str = Field(description="Its directory.")
    created: datetime = Field(description="Time at which it was made.")
    input_offset: int = Field(description="The next input offset after it.")
    output_position: int = Field(description="The output offset up to which it is complete.")
    keys: int = Field(description="Number of ids in it, as the store estimates it.")
    input_topic_id: str = Field(default="", description="UUID of the input topic.")
    output_topic_id: str = Field(default="", description="UUID of the output topic.")
    window_seconds: float = Field(default=0.0, description="Age of the oldest id in it.")
    bytes: int = Field(default=0, description="Size of its files.")


class UploadPhase(StrEnum):
    """Phase of the upload of a snapshot."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class UploadStatus(Report):
    """The current or last upload of a snapshot to a bucket."""

    name: str = Field(description="Name of the snapshot.")
    phase: UploadPhase = Field(description="Phase of the transfer.")
    checkpoint: CheckpointStatus | None = Field(
        default=None, description="The checkpoint that is uploaded."
    )
    handle: str | None = Field(default=None, description="Key of the manifest in the bucket.")
    total_bytes: int = Field(default=0, description="Total bytes.")
    new_bytes: int = Field(default=0, description="Bytes of it that were not in the bucket yet.")
    uploaded_bytes: int = Field(default=0, description="Bytes of those that are uploaded.")
    error: str | None = Field(default=None, description="Reason of the failure.")


class DownloadPhase(StrEnum):
    """Phase of the restore of a store."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class DownloadStatus(Report):
    """The restore of an empty volume from a bucket."""

    name: str = Field(description="Name of the snapshot.")
    phase: DownloadPhase = Field(description="Phase of the transfer.")
    total_bytes: int = Field(default=0, description="Total bytes.")
    bytes: int = Field(default=0, description="Bytes that are downloaded and verified.")
    seconds: float = Field(default=0.0, description="Time taken so far.")
    error: str | None = Field(
        default=None, description="Reason of the failure; the operator must choose another source."
    )


class ComparisonStatus(Report):
    """A reconcile that a user requested (POST /reconcile)."""

    request: str = Field(description="The request that this answers.")
    full: bool = Field(description="True if the whole store is compared with the output topic.")
    done: bool = Field(default=False, description="True if it is complete.")
    records: int = Field(default=0, description="Number of output records read.")
    added: int = Field(
        default=0, description="Number of ids that were missing in the store and were added."
    )
    removed: int = Field(
        default=0, description="Number of ids that no output record has and that were removed."
    )
    aged_out: int = Field(
        default=0, description="Number of ids that the window had already evicted."
    )
    unverifiable: int = Field(
        default=0, description="Number of ids whose output records Kafka no longer retains."
    )
    error: str | None = Field(default=None, description="Reason of the failure.")


class DegradedReason(Report):
    """Something that is not as promised, while the worker runs on."""

    reason: str = Field(description="Reason, a CamelCase word such as WindowShortened.")
    message: str = Field(description="Explanation of the reason, and what to do.")
    count: int = Field(
        default=1,
        description="How often it was reported, or of how many records, since the process started.",
    )
    first_seen: datetime = Field(description="Time of the first report since the process started.")
    last_seen: datetime = Field(description="Time of the last report.")


class WorkerStatus(Report):
    """The body of GET /status."""

    stream: str = Field(description="namespace/name of the stream.")
    partition: int = Field(description="The input partition this worker owns.")
    phase: Phase = Field(description="Phase of the worker.")
    ready: bool = Field(description="True if its store has caught up and it passes messages.")
    reason: str | None = Field(
        default=None, description="Reason why it is not ready, a CamelCase word such as DiskFull."
    )
    message: str | None = Field(
        default=None, description="Explanation of the reason, and what to do."
    )
    degraded: list[DegradedReason] = Field(
        default_factory=list,
        description="What is not as promised, although the worker runs on: a state as long as it "
        "lasts, an event for 24 hours.",
    )
    started_at: datetime = Field(description="Time at which the process started.")
    uptime_seconds: float = Field(description="Time since the start.")
    input: InputStatus = Field(description="Position in the input.")
    output: OutputStatus = Field(description="Position in the output.")
    counts: Counts = Field(description="Counters since the process started.")
    window: WindowStatus = Field(description="The ids in the store.")
    reconcile: ReconcileStatus | None = Field(
        default=None, description="The catch-up with the output topic at the current or last start."
    )
    checkpoint: CheckpointStatus | None = Field(
        default=None, description="The newest checkpoint, if there is one."
    )
    upload: UploadStatus | None = Field(
        default=None, description="The current or last upload of a snapshot to a bucket."
    )
    download: DownloadStatus | None = Field(
        default=None, description="The restore of this volume from a bucket, if there was one."
    )
    comparison: ComparisonStatus | None = Field(
        default=None, description="The last catch-up or full reconcile that a user requested."
    )
