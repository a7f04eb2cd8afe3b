"""What the operator counts about itself."""

from contextlib import suppress
from typing import Final

from prometheus_client import REGISTRY, Counter, Gauge, Histogram

RECONCILES: Final = Counter(
    "dedupe_operator_reconciles", "Looks at a stream, by how they ended.", ["result"]
)
RECONCILE_SECONDS: Final = Histogram(
    "dedupe_operator_reconcile_seconds",
    "Time of one look at a stream.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
LAST_RECONCILE: Final = Gauge(
    "dedupe_operator_last_reconcile_timestamp_seconds", "When a look at a stream ended last."
)
API_REQUESTS: Final = Counter(
    "dedupe_operator_api_requests", "Requests to the API server.", ["verb", "resource"]
)
STREAMS: Final = Gauge("dedupe_operator_streams", "Streams looked after.")
LEADER: Final = Gauge("dedupe_operator_leader", "1 for the replica that acts.")
STREAM_READY: Final = Gauge(
    "dedupe_operator_stream_ready",
    "1 when all partitions of a stream are.",
    ["namespace", "stream"],
)
SNAPSHOTS: Final = Counter(
    "dedupe_operator_snapshots",
    "Snapshots that came to their end, by how: completed or failed.",
    ["namespace", "stream", "result"],
)
SNAPSHOT_COMPLETED: Final = Gauge(
    "dedupe_operator_snapshot_completed_timestamp_seconds",
    "When the newest usable snapshot was complete.",
    ["namespace", "stream"],
)
RESTORES: Final = Counter(
    "dedupe_operator_restores",
    "Stores that partitions were given, by their source.",
    ["namespace", "stream", "source"],
)
FAILOVERS: Final = Counter(
    "dedupe_operator_failovers",
    "Workers moved away from their node by force.",
    ["namespace", "stream"],
)

registry: Final = REGISTRY


def forget_stream(namespace: str, stream: str) -> None:
    """A stream that is gone has no state any more; what was counted of it stays."""
    with suppress(KeyError):
        STREAM_READY.remove(namespace, stream)
    forget_snapshots(namespace, stream)


def forget_snapshots(namespace: str, stream: str) -> None:
    """A stream of which no snapshots are wanted has none that grow old."""
    with suppress(KeyError):
        SNAPSHOT_COMPLETED.remove(namespace, stream)
