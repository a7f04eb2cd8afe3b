"""Prometheus metrics, read from the worker's state at each scrape.

The loop keeps no second set of counters.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dedupe_crds.status.worker import Phase, UploadPhase, WorkerStatus
from dedupe_worker.status import WorkerState

_COUNTERS: Final = {
    "consumed": "Records read from the input.",
    "produced": "Records written to the output and committed.",
    "duplicates": "Records whose id was seen before.",
    "redelivered": "Records read again after a restart whose output was already committed.",
    "without_id": "Records without a usable id, passed on.",
    "conflicts": "Duplicates whose content differs from that of the first record.",
    "late": "Records older than the window, so duplicates of them cannot be detected.",
}
_LABELS: Final = ("stream", "partition")


def make_registry(worker_state: WorkerState) -> CollectorRegistry:
    """Return a registry with the worker's metrics and those of the process."""
    registry = CollectorRegistry()
    registry.register(_BoardCollector(worker_state))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _BoardCollector(Collector):
    def __init__(self, worker_state: WorkerState) -> None:
        self._worker_state = worker_state
        self._labels = (worker_state.stream, str(worker_state.partition))

    def collect(self) -> Iterator[Metric]:
        status = self._worker_state.status()
        for field, help_text in _COUNTERS.items():
            yield self._counter(f"dedupe_records_{field}", help_text, getattr(status.counts, field))
        tally = self._worker_state.tally
        yield self._counter(
            "dedupe_transactions_committed", "Transactions committed.", tally.transactions
        )
        yield self._counter(
            "dedupe_transactions_aborted", "Transactions aborted.", tally.aborted_transactions
        )
        yield self._counter(
            "dedupe_input_offsets_expired",
            "Input offsets deleted by retention before they were read.",
            tally.expired_offsets,
        )
        yield self._counter(
            "dedupe_sessions", "Starts of the loop, including the first.", tally.sessions
        )
        yield from self._labelled(status)
        yield from self._gauges(status)

    def _labelled(self, status: WorkerStatus) -> Iterator[Metric]:
        stages = CounterMetricFamily(
            "dedupe_stage_seconds", "Time in each stage of the loop.", labels=(*_LABELS, "stage")
        )
        for stage, seconds in sorted(self._worker_state.stage_seconds.items()):
            stages.add_metric((*self._labels, stage), seconds)
        yield stages
        missing = CounterMetricFamily(
            "dedupe_records_missing_id",
            "Records without a usable id, by why.",
            labels=(*_LABELS, "reason"),
        )
        for reason, count in sorted(status.counts.missing_ids.items()):
            missing.add_metric((*self._labels, reason), count)
        yield missing
        errors = CounterMetricFamily(
            "dedupe_errors", "Errors by reason.", labels=(*_LABELS, "reason")
        )
        for reason, count in sorted(self._worker_state.errors.items()):
            errors.add_metric((*self._labels, reason), count)
        yield errors
        phases = GaugeMetricFamily(
            "dedupe_phase", "1 for the phase the worker is in.", labels=(*_LABELS, "phase")
        )
        for phase in Phase:
            phases.add_metric((*self._labels, phase.value), phase is self._worker_state.phase)
        yield phases
        problem = GaugeMetricFamily(
            "dedupe_problem",
            "1 for the reason why the worker is not ready.",
            labels=(*_LABELS, "reason"),
        )
        if self._worker_state.problem:
            problem.add_metric((*self._labels, self._worker_state.problem.reason), 1)
        yield problem
        degraded = GaugeMetricFamily(
            "dedupe_degraded",
            "1 for each reason why the worker, though it runs, does not keep a promise.",
            labels=(*_LABELS, "reason"),
        )
        for each in status.degraded:
            degraded.add_metric((*self._labels, each.reason), 1)
        yield degraded

    def _gauges(self, status: WorkerStatus) -> Iterator[Metric]:
        window = status.window
        yield self._gauge("dedupe_ready", "1 when caught up and running.", status.ready)
        yield self._gauge(
            "dedupe_window_seconds", "Age of the oldest id in the store.", window.seconds
        )
        yield self._gauge(
            "dedupe_window_healthy", "0 when the window is shorter than alertBelow.", window.healthy
        )
        yield self._gauge(
            "dedupe_window_truncated",
            "1 when ids younger than maxAge were dropped.",
            window.truncated,
        )
        yield self._gauge("dedupe_store_bytes", "Size of the store on disk.", window.bytes)
        yield self._gauge("dedupe_store_ids", "Ids in the store.", window.keys)
        yield self._gauge(
            "dedupe_store_generations", "Generations in the store.", window.generations
        )
        yield self._gauge(
            "dedupe_heartbeat_age_seconds",
            "Time since the last iteration of the loop.",
            self._worker_state.heartbeat_age_seconds,
        )
        yield self._gauge("dedupe_input_offset", "Next offset to read.", status.input.next_offset)
        if status.input.partitions is not None:
            yield self._gauge(
                "dedupe_input_partitions",
                "Partition count of the input topic, as last described.",
                status.input.partitions,
            )
        if status.input.lag_messages is not None:
            yield self._gauge(
                "dedupe_lag_messages", "Offsets not read yet.", status.input.lag_messages
            )
        if status.output.position is not None:
            yield self._gauge(
                "dedupe_output_position",
                "Output offset the store is complete up to.",
                status.output.position,
            )
        yield from self._catch_up(status)
        if status.checkpoint is not None:
            created = status.checkpoint.created.timestamp()
            yield self._gauge(
                "dedupe_checkpoint_timestamp_seconds",
                "When the newest checkpoint was made.",
                created,
            )
        yield from self._snapshots(status)

    def _catch_up(self, status: WorkerStatus) -> Iterator[Metric]:
        if status.reconcile is not None:
            yield self._gauge(
                "dedupe_catch_up_records",
                "Output records read by the last catch-up or full reconcile.",
                status.reconcile.records,
            )
            yield self._gauge(
                "dedupe_catch_up_remaining_offsets",
                "Output offsets that the catch-up or full reconcile has not read yet.",
                status.reconcile.remaining,
            )
            yield self._gauge(
                "dedupe_catch_up_seconds",
                "Duration of the last catch-up or full reconcile.",
                status.reconcile.seconds,
            )

    def _snapshots(self, status: WorkerStatus) -> Iterator[Metric]:
        upload, download = status.upload, status.download
        if upload is not None:
            yield self._gauge(
                "dedupe_snapshot_bytes", "Size of the last snapshot.", upload.total_bytes
            )
            yield self._gauge(
                "dedupe_snapshot_new_bytes",
                "Part of the last snapshot that was not in the bucket yet.",
                upload.new_bytes,
            )
            yield self._gauge(
                "dedupe_snapshot_uploaded_bytes",
                "Part of the new bytes that is uploaded.",
                upload.uploaded_bytes,
            )
            phases = GaugeMetricFamily(
                "dedupe_snapshot_phase",
                "1 for the phase the last snapshot is in.",
                labels=(*_LABELS, "phase"),
            )
            for phase in UploadPhase:
                phases.add_metric((*self._labels, phase.value), phase is upload.phase)
            yield phases
        if download is not None:
            yield self._gauge(
                "dedupe_restore_total_bytes",
                "Size of the snapshot that is restored.",
                download.total_bytes,
            )
            yield self._gauge(
                "dedupe_restore_bytes",
                "Part of the snapshot that is downloaded and verified.",
                download.bytes,
            )
            yield self._gauge(
                "dedupe_restore_seconds", "Duration of the restore.", download.seconds
            )

    def _counter(self, name: str, help_text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, help_text, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _gauge(self, name: str, help_text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, help_text, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family
