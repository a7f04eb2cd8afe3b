"""What a worker tells the world: the body of GET /status and the meaning of its exit codes.

The operator and the local runner read this; a field they do not know comes from a newer worker and
is skipped, so that workers and readers can be upgraded in any order.
"""

from datetime import datetime
from enum import IntEnum, StrEnum

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Phase(StrEnum):
    """Where a worker is in its life."""

    STARTING = "Starting"
    RESTORING = "Restoring"
    RECONCILING = "Reconciling"
    RUNNING = "Running"
    STOPPING = "Stopping"
    FAILED = "Failed"


class ExitCode(IntEnum):
    """Why a worker process ended."""

    OK = 0
    FAILED = 1
    CONFIG = 64
    IDENTITY_REFUSED = 65
    FENCED = 66
    STATE_LOCKED = 67
    UNSUPPORTED = 68
    STUCK = 70

    @property
    def is_final(self) -> bool:
        """Whether starting the same worker again would end the same way, or take over wrongly."""
        return self in _FINAL


_FINAL = frozenset(
    {
        ExitCode.CONFIG,
        ExitCode.IDENTITY_REFUSED,
        ExitCode.FENCED,
        ExitCode.STATE_LOCKED,
        ExitCode.UNSUPPORTED,
    }
)


class _Report(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class InputStatus(_Report):
    """Where the worker stands in its input partition."""

    topic: str = Field(description="The input topic.")
    next_offset: int = Field(description="The offset that is read next.")
    end_offset: int | None = Field(
        default=None, description="The last stable offset of the partition, if it is known."
    )
    lag_messages: int | None = Field(
        default=None,
        description="endOffset - nextOffset: an upper bound of the messages to come, because "
        "transactions leave gaps in the offsets.",
    )


class OutputStatus(_Report):
    """Where the worker stands in its output partition."""

    topic: str = Field(description="The output topic.")
    position: int | None = Field(
        default=None, description="The output offset up to which the store holds every id."
    )


class Counts(_Report):
    """Records since the process started."""

    consumed: int = Field(default=0, description="Records read.")
    produced: int = Field(default=0, description="Records written to the output and committed.")
    duplicates: int = Field(default=0, description="Records whose id was seen before.")
    redelivered: int = Field(
        default=0, description="Records read again whose output was already committed."
    )
    conflicts: int = Field(
        default=0, description="Of the duplicates: with another content than what they repeat."
    )
    late: int = Field(
        default=0, description="Records too old to be judged: passed on, or routed to a topic."
    )
    without_id: int = Field(default=0, description="Records that carry no id and were passed on.")
    transactions: int = Field(default=0, description="Transactions committed.")
    aborted_transactions: int = Field(default=0, description="Transactions aborted.")


class WindowStatus(_Report):
    """What the worker remembers."""

    seconds: float = Field(
        description="Age of the oldest id still remembered; of a table of fixed size, the age at which "
        "half of the ids are lost."
    )
    bytes: int = Field(description="Disk space the ids take.")
    keys: int = Field(description="Ids remembered, as the store estimates them.")
    generations: int = Field(description="Generations that hold ids.")
    truncated: bool = Field(
        description="Ids younger than the window were lost or dropped for size."
    )
    healthy: bool = Field(description="The window is longer than alertBelow, or still filling.")


class IdOwner(_Report):
    """The record that an id was first seen in."""

    partition: int = Field(description="Partition of the input.")
    offset: int = Field(description="Offset in it.")


class IdStatus(_Report):
    """What a store knows of an id."""

    id: str = Field(description="The id as it was asked for.")
    known: bool = Field(description="A message with this id is a duplicate.")
    owner: IdOwner | None = Field(
        default=None, description="The record it was first seen in, if that is known."
    )
    timestamp: datetime | None = Field(
        default=None, description="Timestamp of that record; only where duplicates are routed."
    )
    generation: str | None = Field(default=None, description="Part of the store that has it.")
    seen_after: datetime | None = Field(
        default=None, description="When the first id of that part was seen."
    )
    seen_before: datetime | None = Field(
        default=None, description="When the last id of that part was seen."
    )


class ReconcileStatus(_Report):
    """The comparison of the store with the output topic at the current or last start."""

    reason: str = Field(description="Why this much was read, in CamelCase.")
    records: int = Field(description="Records read so far.")
    remaining: int = Field(description="Offsets still to read, an upper bound of the records.")
    seconds: float = Field(description="Time taken so far.")


class CheckpointStatus(_Report):
    """The newest checkpoint."""

    path: str = Field(description="Its directory.")
    created: datetime = Field(description="When it was made.")
    input_offset: int = Field(description="The input offset that comes after it.")
    output_position: int = Field(description="The output offset up to which it is complete.")
    keys: int = Field(description="Ids in it, as the store estimates them.")
    input_topic_id: str = Field(default="", description="UUID of the input topic.")
    output_topic_id: str = Field(default="", description="UUID of the output topic.")
    window_seconds: float = Field(default=0.0, description="Age of the oldest id in it.")
    bytes: int = Field(default=0, description="Size of its files.")


class UploadPhase(StrEnum):
    """Where the upload of a snapshot is."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class UploadStatus(_Report):
    """The last snapshot that was uploaded to a bucket, or is being."""

    name: str = Field(description="Name of the snapshot.")
    phase: UploadPhase = Field(description="Where it is.")
    checkpoint: CheckpointStatus | None = Field(default=None, description="What is uploaded.")
    handle: str | None = Field(default=None, description="The manifest's key in the bucket.")
    total_bytes: int = Field(default=0, description="Size of the whole.")
    new_bytes: int = Field(default=0, description="What of it was not in the bucket yet.")
    uploaded_bytes: int = Field(default=0, description="What of that has been uploaded.")
    error: str | None = Field(default=None, description="Why it failed.")


class DownloadPhase(StrEnum):
    """Where the restore of a store is."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class DownloadStatus(_Report):
    """The restore of an empty volume from a bucket."""

    name: str = Field(description="Name of the snapshot.")
    phase: DownloadPhase = Field(description="Where it is.")
    total_bytes: int = Field(default=0, description="Size of the whole.")
    bytes: int = Field(default=0, description="What of it has arrived and was verified.")
    seconds: float = Field(default=0.0, description="Time taken so far.")
    error: str | None = Field(
        default=None, description="Why it failed; another source has to be chosen."
    )


class ComparisonStatus(_Report):
    """A reconcile that was asked for (POST /reconcile)."""

    request: str = Field(description="Which request it answers.")
    full: bool = Field(description="Whether the whole store is compared with the output topic.")
    done: bool = Field(default=False, description="Whether it is complete.")
    records: int = Field(default=0, description="Output records read.")
    added: int = Field(default=0, description="Ids that the store lacked.")
    removed: int = Field(default=0, description="Ids that no output record has.")
    aged_out: int = Field(default=0, description="Ids the window had given up before.")
    unverifiable: int = Field(
        default=0, description="Ids whose output records are no longer retained."
    )
    error: str | None = Field(default=None, description="Why it could not be made.")


class WorkerStatus(_Report):
    """The body of GET /status."""

    stream: str = Field(description="namespace/name of the stream.")
    partition: int = Field(description="The input partition this worker owns.")
    phase: Phase = Field(description="Where the worker is in its life.")
    ready: bool = Field(description="Reconciled and passing messages on.")
    reason: str | None = Field(
        default=None, description="Why it is not ready, in CamelCase, such as DiskFull."
    )
    message: str | None = Field(default=None, description="The same for people, and what to do.")
    started_at: datetime = Field(description="When the process started.")
    uptime_seconds: float = Field(description="Time since then.")
    input: InputStatus = Field(description="Where it stands in the input.")
    output: OutputStatus = Field(description="Where it stands in the output.")
    counts: Counts = Field(description="Records since the process started.")
    window: WindowStatus = Field(description="What it remembers.")
    reconcile: ReconcileStatus | None = Field(
        default=None, description="The reconcile of the current or last start."
    )
    checkpoint: CheckpointStatus | None = Field(
        default=None, description="The newest checkpoint, if there is one."
    )
    upload: UploadStatus | None = Field(
        default=None, description="The last upload of a snapshot to a bucket."
    )
    download: DownloadStatus | None = Field(
        default=None, description="The restore of this volume from a bucket, if it was one."
    )
    comparison: ComparisonStatus | None = Field(
        default=None, description="The last reconcile that was asked for."
    )
