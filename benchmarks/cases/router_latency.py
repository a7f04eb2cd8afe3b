"""End-to-end latency with routers and without them, in turns.

One partition at a steady rate, all settings as by default; latency.py defines what is measured. With routers a message
is written and read once more, and becomes visible by two transactions, one after the other.
"""

from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.cases.latency import DEFAULT_INTERVAL_MS, LatencyRun, measure_run
from benchmarks.harness.model import Model
from benchmarks.harness.processes import Worker
from benchmarks.harness.router import Router
from benchmarks.harness.testbed import Testbed
from dedupe_crds.spec.repartition import REPARTITION_SUFFIX

_ROUTED: Final = {"repartition": {"partitions": 1}}


class LatencyPair(Model):
    """A run without routers, and one with a router."""

    without: LatencyRun
    routed: LatencyRun


class RouterLatency(Model):
    """All rounds, and the latency of producer, broker and receiver alone."""

    rate: int
    seconds: float
    alone: LatencyRun
    rounds: list[LatencyPair]

    def quantile(self, percent: float, *, routed: bool) -> float:
        """Return a quantile in milliseconds, the median of the rounds."""
        return median(run.quantile(percent) for run in self.runs(routed=routed))

    def runs(self, *, routed: bool) -> list[LatencyRun]:
        """Return the runs of one setting."""
        return [pair.routed if routed else pair.without for pair in self.rounds]


def measure_router_latency(
    testbed: Testbed, *, rate: int, rounds: int, seconds: float, report: Callable[[str], None]
) -> RouterLatency:
    """Measure `rounds` pairs, each run for `seconds` after the warm-up.

    Raises BenchmarkFailed.
    """

    def measure(what: str, *, worker: bool = True, routed: bool = False) -> LatencyRun:
        report(f"{rate:,} messages/s, {what}")
        return _run(testbed, rate=rate, seconds=seconds, with_worker=worker, routed=routed)

    alone = measure("without a worker", worker=False)
    pairs = []
    for number in range(1, rounds + 1):
        runs = {}
        for routed in (False, True) if number % 2 else (True, False):
            what = f"round {number} of {rounds}, {'with' if routed else 'without'} routers"
            runs[routed] = measure(what, routed=routed)
        pairs.append(LatencyPair(without=runs[False], routed=runs[True]))
    return RouterLatency(rate=rate, seconds=seconds, alone=alone, rounds=pairs)


def _run(
    testbed: Testbed, *, rate: int, seconds: float, with_worker: bool, routed: bool
) -> LatencyRun:
    source = testbed.create_topic("paced")
    if not with_worker:
        run = measure_run(testbed, source, source, rate=rate, seconds=seconds)
        testbed.delete_topics(source)
        return run
    target = testbed.create_topic("paced-clean")
    spec = _ROUTED if routed else {}
    home, servers = testbed.scratch / target, testbed.bootstrap_servers
    with ExitStack() as running:
        # First the worker: it creates the repartition topic.
        worker = running.enter_context(Worker(home / "worker", servers, source, target, spec=spec))
        worker.wait_until_ready()
        router = None
        if routed:
            router = running.enter_context(Router(home / "router", servers, source, target, spec))
            router.wait_until_ready()
        run = measure_run(
            testbed, source, target, rate=rate, seconds=seconds, worker=worker, router=router
        )
    testbed.delete_topics(source, target, *([f"{target}{REPARTITION_SUFFIX}"] if routed else []))
    return run.model_copy(update={"commit_interval_ms": DEFAULT_INTERVAL_MS})
