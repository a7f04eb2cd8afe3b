"""End-to-end latency at a steady rate: for commit intervals, and at half load.

Half load is half of the rate at which a worker processes a backlog, which is measured first. Producer and receiver are
separate processes. Their own part and the broker's is measured as well, as the setting without a worker: the receiver
then reads the topic that the producer writes.

A message's time begins when it is due, so a delayed producer or its linger hides nothing. The n-th record received is
the n-th message sent for the first time: other benchmarks check that each arrives once and in order. The first seconds
are not counted: the workers' first transaction, the broker's first segments. Nor is a run that comes before all others:
a new broker compiles its code meanwhile and uses twice the CPU time, which doubles the tail at half load.
"""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases.throughput import send_backlog
from benchmarks.harness.measure import cpu_seconds_of
from benchmarks.harness.model import Model
from benchmarks.harness.pacer import Pace
from benchmarks.harness.processes import Environment, Process, Worker
from benchmarks.harness.router import Router
from benchmarks.harness.steady import run_workers
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import traffic

COMMIT_INTERVALS_MS: Final = (5, 25, 100, 500)
DEFAULT_INTERVAL_MS: Final = 25
QUANTILES: Final = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)

_WARM_UP_SECONDS: Final = 3.0
_BROKER_WARM_UP_SECONDS: Final = 30.0
_GRACE_SECONDS: Final = 120.0


class LatencyRun(Model):
    """A setting and its quantiles.

    `commit_interval_ms` is None without a worker; `quantiles_ms` belong to QUANTILES.
    """

    commit_interval_ms: int | None
    rate: int
    records: int
    quantiles_ms: list[float]
    pace: Pace
    worker_cores: float
    """CPU seconds a second, of the worker; likewise the others."""
    router_cores: float = 0.0
    receiver_cores: float
    broker_cores: float
    transactions_per_second: float

    @property
    def setting(self) -> str:
        """The setting in words."""
        if self.commit_interval_ms is None:
            return "without a worker"
        default = " (default)" if self.commit_interval_ms == DEFAULT_INTERVAL_MS else ""
        return f"{self.commit_interval_ms} ms{default}"

    def quantile(self, percent: float) -> float:
        """Return a quantile of QUANTILES, in milliseconds."""
        return self.quantiles_ms[QUANTILES.index(percent)]


class Latency(Model):
    """All settings at `rate`, and at half of `capacity`: messages per second."""

    rate: int
    seconds: float
    runs: list[LatencyRun]
    capacity: float
    half_load: list[LatencyRun]

    @property
    def default(self) -> LatencyRun:
        """The run with the worker's default settings."""
        return _default(self.runs)

    @property
    def default_at_half_load(self) -> LatencyRun:
        """The same at half load."""
        return _default(self.half_load)


class PairedLatency(Model):
    """Two kinds of workers that took turns, at `rate` messages per second."""

    rate: int
    seconds: float
    runs: dict[str, list[LatencyRun]]

    def percentile(self, kind: str, percent: float) -> float:
        """Return the median of the rounds, in milliseconds."""
        return median(self.percentiles(kind, percent))

    def percentiles(self, kind: str, percent: float) -> list[float]:
        """Return those of all rounds, the lowest first."""
        return sorted(run.quantile(percent) for run in self.runs[kind])


def measure_latency(
    testbed: Testbed,
    *,
    rate: int,
    messages: int,
    seconds: float,
    report: Callable[[str], None],
    intervals_ms: Sequence[int] = COMMIT_INTERVALS_MS,
) -> Latency:
    """Measure each setting for `seconds` after the warm-up.

    `messages` are those of the full load that is measured first. Raises BenchmarkFailed.
    """
    report(f"full load: {messages:,} messages")
    backlog = send_backlog(testbed, messages)
    capacity = run_workers(backlog).per_second
    testbed.delete_topics(backlog.topic)
    half_load = int(capacity / 2)
    report(f"warming up: {half_load:,} messages/s")
    run_latency(
        testbed,
        rate=half_load,
        seconds=_BROKER_WARM_UP_SECONDS,
        interval_ms=DEFAULT_INTERVAL_MS,
    )

    def measure(rate: int, intervals_ms: Sequence[int]) -> list[LatencyRun]:
        runs = []
        for interval in (None, *intervals_ms):
            what = "without a worker" if interval is None else f"commit interval {interval} ms"
            report(f"{rate:,} messages/s, {what}")
            runs.append(run_latency(testbed, rate=rate, seconds=seconds, interval_ms=interval))
        return runs

    return Latency(
        rate=rate,
        seconds=seconds,
        capacity=capacity,
        half_load=measure(half_load, [DEFAULT_INTERVAL_MS]),
        runs=measure(rate, intervals_ms),
    )


def _default(runs: Sequence[LatencyRun]) -> LatencyRun:
    return next(run for run in runs if run.commit_interval_ms == DEFAULT_INTERVAL_MS)


def run_latency(
    testbed: Testbed,
    *,
    rate: int,
    seconds: float,
    interval_ms: int | None,
    environment: Environment = None,
) -> LatencyRun:
    """Measure a worker with this commit interval, or none. Raises BenchmarkFailed.

    `environment` are variables of the worker in addition to this process's own.
    """
    source = testbed.create_topic("paced")
    if interval_ms is None:
        run = measure_run(testbed, source, source, rate=rate, seconds=seconds)
        testbed.delete_topics(source)
        return run
    target = testbed.create_topic("paced-clean")
    tuning = {"commitInterval": f"{interval_ms}ms"}
    home = testbed.scratch / target
    topics = (testbed.bootstrap_servers, source, target)
    with Worker(home, *topics, tuning, environment=environment) as worker:
        worker.wait_until_ready()
        run = measure_run(testbed, source, target, rate=rate, seconds=seconds, worker=worker)
        run = run.model_copy(update={"commit_interval_ms": interval_ms})
    testbed.delete_topics(source, target)
    return run


def measure_run(
    testbed: Testbed,
    source: str,
    target: str,
    *,
    rate: int,
    seconds: float,
    worker: Worker | None = None,
    router: Router | None = None,
) -> LatencyRun:
    """Measure a run through processes that are ready. Raises BenchmarkFailed."""
    count = int(rate * (seconds + _WARM_UP_SECONDS))
    positions = traffic(count).first_at if worker else np.arange(count)
    times_file, pace_file = (testbed.scratch / f"{target}{end}" for end in (".npy", ".pace"))
    servers = testbed.bootstrap_servers
    receiving = ("benchmarks.harness.receiver", servers, target, len(positions), times_file)
    sending = ("benchmarks.harness.pacer", servers, source, count, rate, pace_file)
    measured = (worker.pid if worker else 0, router.pid if router else 0, testbed.broker_pid)
    before = _cpu(measured)
    with (
        Process(*receiving, log=times_file.with_suffix(".log")) as receiver,
        Process(*sending, log=pace_file.with_suffix(".log")) as pacer,
    ):
        pacer.wait(seconds + _GRACE_SECONDS)
        receiver.wait(_GRACE_SECONDS)
    after = _cpu(measured)
    pace = Pace.model_validate_json(pace_file.read_text())
    worker_cores, router_cores, broker_cores = (after - before) / pace.seconds
    latency_ms = (np.load(times_file) - pace.due_ns(positions)) / 1e6
    counted = positions >= rate * _WARM_UP_SECONDS
    quantiles = np.percentile(latency_ms[counted], QUANTILES).tolist()
    transactions = worker.status().counts.transactions if worker else 0
    return LatencyRun(
        commit_interval_ms=None,
        rate=rate,
        records=int(counted.sum()),
        quantiles_ms=quantiles,
        pace=pace,
        worker_cores=worker_cores,
        router_cores=router_cores,
        receiver_cores=float(times_file.with_suffix(".cpu").read_text()) / pace.seconds,
        broker_cores=broker_cores,
        transactions_per_second=transactions / pace.seconds,
    )


def _cpu(pids: Sequence[int]) -> NDArray[np.float64]:
    """CPU seconds so far of each process, 0 for the process 0."""
    return np.array([cpu_seconds_of(pid) if pid else 0.0 for pid in pids])
