"""Models of a stream's worker processes: image, resources, tuning, failover."""

from datetime import timedelta
from typing import Annotated, Final

from pydantic import Field, StrictInt

from dedupe_crds.base import Model
from dedupe_crds.names import ImageName
from dedupe_crds.quantity import MIB, ByteSize, Duration
from dedupe_crds.rules import duration_between, rule, size_between
from dedupe_crds.spec.pod import PodShape
from dedupe_crds.spec.resources import Resources


class Failover(Model):
    """Failover of workers from nodes that are not ready."""

    node_not_ready_after: Annotated[Duration, duration_between("5s", "1d")] = Field(
        default=timedelta(seconds=60),
        description="Time that a node may be NotReady before its workers are moved away by force.",
    )


# All partitions of a stream commit to one group: at this interval, at most 10,000 times a second.
_INTERVAL_OF_A_PARTITION: Final = timedelta(microseconds=100)


class Tuning(Model):
    """Trade-offs between latency, throughput and memory of a worker."""

    commit_interval: Annotated[Duration, duration_between("1ms", "30s")] = Field(
        default=timedelta(milliseconds=25),
        description="Time that a transaction stays open when the worker has no lag.",
    )
    max_commit_interval: Annotated[Duration, duration_between("1ms", "30s")] | None = Field(
        default=None,
        description="Time between two transactions while messages keep coming and the worker has no lag. A message "
        "that comes after a pause of this length waits for commitInterval only. Default: 0.1 ms for each partition of "
        "the input, at least commitInterval.",
    )
    max_batch_records: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = Field(
        default=10_000, description="Maximum number of records that are looked up in a batch."
    )
    max_transaction_records: Annotated[StrictInt, Field(ge=1, le=10_000_000)] = Field(
        default=100_000, description="Maximum number of input records in a transaction."
    )
    queue_bytes: Annotated[ByteSize, size_between("1Mi", "1Gi")] = Field(
        default=32 * MIB,
        description="Limit of the data that is fetched but not processed, and the same limit for the data that is "
        "produced but not acknowledged. If a message is larger than the latter, it is doubled until the message fits.",
    )
    block_cache_bytes: Annotated[ByteSize, size_between("1Mi", "64Gi")] = Field(
        default=32 * MIB, description="Memory of the block cache of RocksDB."
    )

    @rule(
        "max_batch_records",
        "max_transaction_records",
        cel="self.maxTransactionRecords >= self.maxBatchRecords",
        message="must be at least spec.worker.tuning.maxBatchRecords: a batch is never split",
    )
    @staticmethod
    def _transaction_holds_a_batch(batch: int, transaction: int) -> bool:
        return transaction >= batch

    def longest_commit_interval(self, partitions: int) -> timedelta:
        """Return the longest commit interval in a stream with so many input partitions."""
        bound = self.max_commit_interval or partitions * _INTERVAL_OF_A_PARTITION
        return max(self.commit_interval, bound)


class ServiceAccount(Model):
    """The ServiceAccount that the operator creates for the workers."""

    annotations: Annotated[dict[str, str], Field(max_length=16)] = Field(
        default={},
        description="Annotations, such as eks.amazonaws.com/role-arn for a role of AWS. A change restarts the workers.",
    )


class Worker(PodShape):
    """The process that deduplicates a partition, and the pods of workers and routers."""

    image: ImageName | None = Field(
        default=None, description="Container image. Default: that of the operator's release."
    )
    resources: Resources = Field(
        default=Resources(),
        description="CPU and memory of the container. Default: requests of 50m CPU, and of 256Mi memory plus "
        "13 % of spec.store.window.maxBytes, or plus the table of type: InverseBloom.",
    )
    tuning: Tuning = Field(
        default=Tuning(), description="Trade-offs between latency, throughput and memory."
    )
    service_account: ServiceAccount = Field(
        default=ServiceAccount(), description="ServiceAccount of the workers."
    )
