"""Prometheus metrics, read from the router's state at each scrape."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dedupe_crds.status.router import RouterStatus
from dedupe_router.state import RouterState

_COUNTERS: Final = {
    "routed": ("records_routed", "Records written to the repartition topic and committed."),
    "without_id": ("records_without", "Records without the id or key that decides."),
    "bytes": ("bytes_routed", "Bytes of the values of routed records."),
    "transactions": ("transactions_committed", "Transactions committed."),
    "aborted_transactions": ("transactions_aborted", "Transactions aborted."),
    "rebalances": ("rebalances", "Changes of the assignment."),
}
_LABELS: Final = ("stream", "router")


def make_registry(state: RouterState) -> CollectorRegistry:
    """Return a registry with the router's metrics and those of the process."""
    registry = CollectorRegistry()
    registry.register(_StateCollector(state))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _StateCollector(Collector):
    def __init__(self, state: RouterState) -> None:
        self._state = state
        self._labels = (state.stream, str(state.router))

    def collect(self) -> Iterator[Metric]:
        status = self._state.status()
        for name, (metric, text) in _COUNTERS.items():
            counter = CounterMetricFamily(f"dedupe_router_{metric}", text, labels=_LABELS)
            counter.add_metric(self._labels, getattr(status.counts, name))
            yield counter
        errors = CounterMetricFamily(
            "dedupe_router_errors", "Errors and warnings by reason.", labels=(*_LABELS, "reason")
        )
        for reason, count in sorted(self._state.errors.items()):
            errors.add_metric((*self._labels, reason), count)
        yield errors
        yield from self._gauges(status)

    def _gauges(self, status: RouterStatus) -> Iterator[Metric]:
        yield self._gauge("ready", "1 if the router is ready.", status.ready)
        problem = GaugeMetricFamily(
            "dedupe_router_problem",
            "1 for the reason why the router is not ready.",
            labels=(*_LABELS, "reason"),
        )
        if status.reason:
            problem.add_metric((*self._labels, status.reason), 1)
        yield problem
        lag = GaugeMetricFamily(
            "dedupe_router_lag_messages",
            "Offsets of the assigned partitions that are not committed, by input topic.",
            labels=(*_LABELS, "topic"),
        )
        for each in status.inputs:
            if each.lag_messages is not None:
                lag.add_metric((*self._labels, each.topic), each.lag_messages)
        yield lag
        output = status.output
        if output is not None and output.held_records is not None:
            yield self._gauge(
                "held_records",
                "Offsets of the repartition topic that are not deleted yet.",
                output.held_records,
            )
        if output is not None and output.held_bytes is not None:
            yield self._gauge("held_bytes", "Estimate of their bytes.", output.held_bytes)
        yield self._gauge(
            "held_bytes_limit", "Bytes from which the router pauses.", self._state.most_held_bytes
        )

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(f"dedupe_router_{name}", text, labels=_LABELS)
        gauge.add_metric(self._labels, value)
        return gauge
