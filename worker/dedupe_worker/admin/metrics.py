"""Prometheus metrics, read off the board when they are asked for: the loop keeps no second set of counters."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dedupe_crds.status.worker import Phase, UploadPhase, WorkerStatus
from dedupe_worker.status import Board

_COUNTERS: Final = {
    "consumed": "Records read from the input.",
    "produced": "Records written to the output and committed.",
    "duplicates": "Records whose id was seen before.",
    "redelivered": "Records read again whose output was already committed.",
    "without_id": "Records without a usable id, passed on.",
    "conflicts": "Duplicates with another content than the record they repeat.",
    "late": "Records older than what is remembered, so that nothing can be said of them.",
}
_LABELS: Final = ("stream", "partition")


def make_registry(board: Board) -> CollectorRegistry:
    """A registry with the worker's metrics and the process's own."""
    registry = CollectorRegistry()
    registry.register(_BoardCollector(board))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _BoardCollector(Collector):
    def __init__(self, board: Board) -> None:
        self._board = board
        self._labels = (board.stream, str(board.partition))

    def collect(self) -> Iterator[Metric]:
        status = self._board.status()
        for field, help_text in _COUNTERS.items():
            yield self._counter(f"dedupe_records_{field}", help_text, getattr(status.counts, field))
        tally = self._board.tally
        yield self._counter(
            "dedupe_transactions_committed", "Transactions committed.", tally.transactions
        )
        yield self._counter(
            "dedupe_transactions_aborted", "Transactions aborted.", tally.aborted_transactions
        )
        yield self._counter(
            "dedupe_input_offsets_expired",
            "Offsets deleted by retention before they were read.",
            tally.expired_offsets,
        )
        yield self._counter(
            "dedupe_sessions", "Starts of the loop, the first included.", tally.sessions
        )
        yield from self._labelled()
        yield from self._gauges(status)

    def _labelled(self) -> Iterator[Metric]:
        stages = CounterMetricFamily(
            "dedupe_stage_seconds", "Time in each stage of the loop.", labels=(*_LABELS, "stage")
        )
        for stage, seconds in sorted(self._board.stage_seconds.items()):
            stages.add_metric((*self._labels, stage), seconds)
        yield stages
        errors = CounterMetricFamily(
            "dedupe_errors", "Failures by reason.", labels=(*_LABELS, "reason")
        )
        for reason, count in sorted(self._board.errors.items()):
            errors.add_metric((*self._labels, reason), count)
        yield errors
        phases = GaugeMetricFamily(
            "dedupe_phase", "1 for the phase the worker is in.", labels=(*_LABELS, "phase")
        )
        for phase in Phase:
            phases.add_metric((*self._labels, phase.value), phase is self._board.phase)
        yield phases
        problem = GaugeMetricFamily(
            "dedupe_problem",
            "1 for what keeps the worker from its work now.",
            labels=(*_LABELS, "reason"),
        )
        if self._board.problem:
            problem.add_metric((*self._labels, self._board.problem.reason), 1)
        yield problem

    def _gauges(self, status: WorkerStatus) -> Iterator[Metric]:
        window = status.window
        yield self._gauge("dedupe_ready", "1 when reconciled and at work.", status.ready)
        yield self._gauge(
            "dedupe_window_seconds", "Age of the oldest id remembered.", window.seconds
        )
        yield self._gauge(
            "dedupe_window_healthy", "0 when the window is shorter than alertBelow.", window.healthy
        )
        yield self._gauge(
            "dedupe_window_truncated", "1 when ids within maxAge were given up.", window.truncated
        )
        yield self._gauge("dedupe_store_bytes", "Size of the store on disk.", window.bytes)
        yield self._gauge("dedupe_store_ids", "Ids in the store.", window.keys)
        yield self._gauge(
            "dedupe_store_generations", "Generations in the store.", window.generations
        )
        yield self._gauge(
            "dedupe_heartbeat_age_seconds",
            "Since the loop went round.",
            self._board.heartbeat_age_seconds,
        )
        yield self._gauge("dedupe_input_offset", "Next offset to read.", status.input.next_offset)
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
        if status.reconcile is not None:
            yield self._gauge(
                "dedupe_reconcile_records",
                "Records read at the last start.",
                status.reconcile.records,
            )
            yield self._gauge(
                "dedupe_reconcile_remaining_offsets",
                "Offsets left to reconcile.",
                status.reconcile.remaining,
            )
            yield self._gauge(
                "dedupe_reconcile_seconds", "Time of the last reconcile.", status.reconcile.seconds
            )
        if status.checkpoint is not None:
            created = status.checkpoint.created.timestamp()
            yield self._gauge(
                "dedupe_checkpoint_timestamp_seconds",
                "When the newest checkpoint was made.",
                created,
            )
        yield from self._snapshots(status)

    def _snapshots(self, status: WorkerStatus) -> Iterator[Metric]:
        upload, download = status.upload, status.download
        if upload is not None:
            yield self._gauge(
                "dedupe_snapshot_bytes", "Size of the last snapshot.", upload.total_bytes
            )
            yield self._gauge(
                "dedupe_snapshot_new_bytes",
                "What of it was not in the bucket yet.",
                upload.new_bytes,
            )
            yield self._gauge(
                "dedupe_snapshot_uploaded_bytes",
                "What of that has been uploaded.",
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
                "dedupe_restore_total_bytes", "Size of what is restored.", download.total_bytes
            )
            yield self._gauge(
                "dedupe_restore_bytes", "What of it has arrived and is verified.", download.bytes
            )
            yield self._gauge("dedupe_restore_seconds", "Time of the restore.", download.seconds)

    def _counter(self, name: str, help_text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, help_text, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _gauge(self, name: str, help_text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, help_text, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family
