"""Models of a router's GET /status.

The operator, the kubectl plugin and the local runner read them. Invariant: a reader ignores fields of a newer router,
so routers and readers can be upgraded in any order.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from dedupe_crds.status.report import Report


class RouterPhase(StrEnum):
    """Phase of a router."""

    STARTING = "Starting"
    RUNNING = "Running"
    PAUSED = "Paused"
    STOPPING = "Stopping"
    FAILED = "Failed"


class RouterInput(Report):
    """The part of an input topic that this router reads now."""

    topic: str = Field(description="The input topic.")
    partitions: list[int] = Field(description="Partitions of it that are assigned to this router.")
    lag_messages: int | None = Field(
        default=None,
        description="Offsets of these partitions that are not committed yet, an upper bound of the messages; not "
        "known before all have been read from.",
    )


class RouterCounts(Report):
    """Counters since the process started."""

    routed: int = Field(default=0, description="Records written and committed.")
    without_id: int = Field(
        default=0, description="Records without the id or key that decides on the partition."
    )
    bytes: int = Field(
        default=0, description="Bytes of keys, values and headers of these records, about."
    )
    transactions: int = Field(default=0, description="Transactions committed.")
    aborted_transactions: int = Field(default=0, description="Transactions aborted.")
    rebalances: int = Field(default=0, description="Changes of the assignment.")


class RepartitionTopicStatus(Report):
    """The topic between routers and workers, as this router last saw it."""

    topic: str = Field(description="The repartition topic.")
    partitions: int = Field(description="Partition count.")
    held_records: int | None = Field(
        default=None,
        description="Offsets that are not deleted yet, an upper bound of the records that workers have not read.",
    )
    held_bytes: int | None = Field(
        default=None, description="Their size, estimated from the mean size of a record."
    )


class RouterStatus(Report):
    """The body of GET /status."""

    stream: str = Field(description="namespace/name of the stream.")
    router: int = Field(description="The number of this router.")
    phase: RouterPhase = Field(description="Phase of the router.")
    ready: bool = Field(
        description="True if it is a member of the consumer group, and nothing keeps it from routing."
    )
    reason: str | None = Field(
        default=None, description="Reason why it is not ready, a CamelCase word."
    )
    message: str | None = Field(
        default=None, description="Explanation of the reason, and what to do."
    )
    warnings: dict[str, str] = Field(
        default_factory=dict,
        description="What is not as wanted although the router runs: a reason, and its explanation.",
    )
    started_at: datetime = Field(description="Time at which the process started.")
    uptime_seconds: float = Field(description="Time since the start.")
    epoch: int = Field(default=0, description="Number of the partitioning in force.")
    inputs: list[RouterInput] = Field(
        default_factory=list, description="The inputs, by the name of the topic."
    )
    output: RepartitionTopicStatus | None = Field(
        default=None, description="The repartition topic, once Kafka has described it."
    )
    counts: RouterCounts = Field(
        default=RouterCounts(), description="Counters since the process started."
    )
