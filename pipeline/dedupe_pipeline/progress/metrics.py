"""Serve the progress of a streaming job to Prometheus.

The options --metrics-port and --metrics-host of `land` and `aggregate` start it. Invariant: a metric changes only when
a batch is done, or when the query has found nothing to do.
"""

from threading import Thread
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    make_wsgi_app,
)

from dedupe_httpd.bounded_server import BoundedServer
from dedupe_kafka.errors import InvalidConfig
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.progress.micro_batches import Batch

_LABELS: Final = ("command", "stream", "target")  # `job` is a label of Prometheus


class JobMetrics:
    """The metrics of one streaming job.

    `target` is the directory or table that it fills.
    """

    def __init__(self, *, command: str, stream: str, target: str) -> None:
        self.registry = CollectorRegistry()
        self._values = {"command": command, "stream": stream, "target": target}
        self._batches = self._counter("batches", "Micro-batches that are done.")
        self._records = self._counter("records", "Records read in these batches.")
        self._rows = self._counter("rows", "Rows written in these batches.")
        self._lag = self._gauge(
            "lag_offsets",
            "Offsets of the topic behind the last batch when that began, markers of transactions included.",
        )
        self._number = self._gauge("last_batch", "Number of the last batch.")
        self._seconds = self._gauge("last_batch_seconds", "Duration of the last batch.")
        self._batch_records = self._gauge("last_batch_records", "Records of the last batch.")
        self._alive = self._gauge(
            "last_progress_timestamp_seconds",
            "Time when the last batch was done, or there was nothing to do, or the process started.",
        )
        self._alive.set_to_current_time()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def batch_done(self, batch: Batch) -> None:
        """Count a batch."""
        self._batches.inc()
        self._records.inc(batch.records)
        self._rows.inc(batch.rows or 0)
        self._lag.set(batch.lag)
        self._number.set(batch.number)
        self._seconds.set(batch.seconds)
        self._batch_records.set(batch.records)
        self._alive.set_to_current_time()

    def idle(self) -> None:
        """Note that there was nothing to do."""
        self._lag.set(0)
        self._alive.set_to_current_time()

    def _counter(self, name: str, text: str) -> Counter:
        counter = Counter(f"dedupe_job_{name}", text, _LABELS, registry=self.registry)
        return counter.labels(**self._values)

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"dedupe_job_{name}", text, _LABELS, registry=self.registry)
        return gauge.labels(**self._values)


def serve_metrics(metrics: JobMetrics, host: str, port: int) -> BoundedServer:
    """Serve the metrics until the process ends.

    Port 0 takes a free one.

    Raises RequestRefused if the address cannot be used.
    """
    try:
        server = BoundedServer(make_wsgi_app(metrics.registry), host, port, threads=1)
    except InvalidConfig as error:
        raise RequestRefused(f"--metrics-port: {error}") from error
    Thread(target=server.run, name="metrics", daemon=True).start()
    return server
