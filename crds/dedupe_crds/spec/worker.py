"""The worker processes of a stream: their image, their resources, their tuning, their failover."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import ImageName
from dedupe_crds.quantity import MIB, ByteSize, Duration, ResourceQuantity, parse_size
from dedupe_crds.rules import duration_between, rule, size_between

ResourceList = Annotated[dict[str, ResourceQuantity], Field(max_length=32)]


class Failover(Model):
    """When to move a partition away from a node."""

    node_not_ready_after: Annotated[Duration, duration_between("5s", "1d")] = Field(
        default=timedelta(seconds=60),
        description="How long a node may be NotReady before its workers are moved by force.",
    )


class Resources(Model):
    """Kubernetes resource requirements of a worker's container."""

    requests: ResourceList = Field(default={}, description="What a worker is sure to get.")
    limits: ResourceList = Field(default={}, description="What a worker may use at most.")

    @property
    def memory_limit(self) -> int | None:
        """Bytes of memory that a worker may use; None if that is not bounded, or told in thousandths of a byte."""
        try:
            return parse_size(self.limits["memory"])
        except (KeyError, ValueError):
            return None


class Tuning(Model):
    """What trades latency, throughput and memory of a worker."""

    commit_interval: Annotated[Duration, duration_between("1ms", "30s")] = Field(
        default=timedelta(milliseconds=25),
        description="How long a transaction stays open when the worker has caught up.",
    )
    max_batch_records: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = Field(
        default=10_000, description="Records that are looked up together."
    )
    max_transaction_records: Annotated[StrictInt, Field(ge=1, le=10_000_000)] = Field(
        default=100_000, description="Records read, at most, in one transaction."
    )
    queue_bytes: Annotated[ByteSize, size_between("1Mi", "1Gi")] = Field(
        default=32 * MIB,
        description="Bound of the data fetched and not yet processed, and, apart from it, of the "
        "data produced and not yet acknowledged.",
    )
    block_cache_bytes: Annotated[ByteSize, size_between("1Mi", "64Gi")] = Field(
        default=32 * MIB, description="Memory for blocks of the store's files."
    )

    @rule(
        "max_batch_records",
        "max_transaction_records",
        cel="self.maxTransactionRecords >= self.maxBatchRecords",
        says="must be at least spec.worker.tuning.maxBatchRecords: a batch is never split",
    )
    @staticmethod
    def _transaction_holds_a_batch(batch: int, transaction: int) -> bool:
        return transaction >= batch


class Worker(Model):
    """The process that deduplicates one partition."""

    image: ImageName | None = Field(
        default=None, description="Container image; the operator's own release if absent."
    )
    resources: Resources = Field(default=Resources(), description="Processor and memory.")
    tuning: Tuning = Field(default=Tuning(), description="Latency, throughput and memory.")
