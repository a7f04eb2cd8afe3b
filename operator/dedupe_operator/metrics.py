"""Prometheus metrics of the operator. `health` serves them."""

from contextlib import suppress
from typing import Final

from prometheus_client import REGISTRY, Counter, Gauge, Histogram

from dedupe_crds.status.stream import RestoreSource

RECONCILES: Final = Counter(
    "dedupe_operator_reconciles", "Reconciles of a stream, by result: ok or failed.", ["result"]
)
RECONCILE_SECONDS: Final = Histogram(
    "dedupe_operator_reconcile_seconds",
    "Duration of one reconcile of a stream.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
LAST_RECONCILE: Final = Gauge(
    "dedupe_operator_last_reconcile_timestamp_seconds",
    "Time when the last reconcile of any stream ended.",
)
API_REQUESTS: Final = Counter(
    "dedupe_operator_api_requests", "Requests to the API server.", ["verb", "resource"]
)
WATCHES_FAILING: Final = Gauge(
    "dedupe_operator_watches_failing",
    "1 while the operator can't watch a kind of object, as without rights in that namespace, else 0.",
    ["namespace", "resource"],
)
STREAMS: Final = Gauge("dedupe_operator_streams", "Streams that this operator manages.")
LEADER: Final = Gauge("dedupe_operator_leader", "1 for the replica that is the leader, else 0.")
STREAM_READY: Final = Gauge(
    "dedupe_operator_stream_ready",
    "1 if all partitions of a stream are known to be ready, else 0. A suspended stream has none.",
    ["namespace", "stream"],
)
INPUT_PARTITIONS_ADDED: Final = Gauge(
    "dedupe_operator_input_partitions_added",
    "Partitions that were added to the input of a stream, and wait.",
    ["namespace", "stream"],
)
EPOCH: Final = Gauge(
    "dedupe_operator_epoch",
    "Number of the partitioning in force, of a stream with routers.",
    ["namespace", "stream"],
)
GROWTH_STEP: Final = Gauge(
    "dedupe_operator_growth_step",
    "Step of a growth: 1 Learning, 2 WaitingForRouters, 3 WaitingForWorkers, 4 ReadingRest; 5 HandingOver, "
    "the first one of a change to routers; 0 if there is none.",
    ["namespace", "stream"],
)
SNAPSHOTS: Final = Counter(
    "dedupe_operator_snapshots",
    "Snapshots that ended, by result: completed or failed.",
    ["namespace", "stream", "result"],
)
SNAPSHOT_COMPLETED: Final = Gauge(
    "dedupe_operator_snapshot_completed_timestamp_seconds",
    "Completion time of the newest usable snapshot; of the partition with the oldest one.",
    ["namespace", "stream"],
)
RESTORES: Final = Counter(
    "dedupe_operator_restores",
    "Stores that partitions got in place of earlier ones, by restore source.",
    ["namespace", "stream", "source"],
)
FAILOVERS: Final = Counter(
    "dedupe_operator_failovers",
    "Workers that were force-deleted to move to another node.",
    ["namespace", "stream"],
)
FAILOVERS_HELD_BACK: Final = Gauge(
    "dedupe_operator_failovers_held_back",
    "Workers that are not moved from their nodes, because too many nodes are not ready.",
    ["namespace", "stream"],
)

registry: Final = REGISTRY
for _result in ("ok", "failed"):
    RECONCILES.labels(_result)


def set_ready(namespace: str, stream: str, *, ready: bool | None) -> None:
    """Set whether a stream is ready; None removes it, for one that is suspended."""
    if ready is not None:
        STREAM_READY.labels(namespace, stream).set(ready)
        return
    with suppress(KeyError):
        STREAM_READY.remove(namespace, stream)


def begin_counters(namespace: str, stream: str) -> None:
    """Begin the counters of a stream at 0: increase() misses a series' first value."""
    FAILOVERS.labels(namespace, stream)
    for result in ("completed", "failed"):
        SNAPSHOTS.labels(namespace, stream, result)
    for source in RestoreSource:
        RESTORES.labels(namespace, stream, source.value)


def forget_stream(namespace: str, stream: str) -> None:
    """Remove the metrics of a deleted stream."""
    for gauge in (
        STREAM_READY,
        INPUT_PARTITIONS_ADDED,
        EPOCH,
        GROWTH_STEP,
        FAILOVERS_HELD_BACK,
    ):
        with suppress(KeyError):
            gauge.remove(namespace, stream)
    for counter in (FAILOVERS, SNAPSHOTS, RESTORES):
        counter.remove_by_labels({"namespace": namespace, "stream": stream})
    forget_snapshots(namespace, stream)


def forget_snapshots(namespace: str, stream: str) -> None:
    """Remove the snapshot age of a stream without snapshots, so that no alert fires."""
    with suppress(KeyError):
        SNAPSHOT_COMPLETED.remove(namespace, stream)
