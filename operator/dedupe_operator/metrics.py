"""What the operator counts about itself."""

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

registry: Final = REGISTRY
