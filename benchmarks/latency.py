"""How long a message takes from its sending to its receipt, at a steady rate, for several commit intervals.

Producer and receiver are processes of their own. What they and the broker take by themselves is measured too, as the
setting without a worker: the receiver then reads the topic that the producer writes.

The time of sending is when the producer was called, so its linger counts. The first seconds are left out: the workers'
first transaction, the broker's first segments. Late sending would hide a stall, so that is reported beside it.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict

from benchmarks.measure import cpu_seconds_of
from benchmarks.pacer import Pace
from benchmarks.processes import BenchmarkFailed, Process, Worker
from benchmarks.testbed import Testbed
from benchmarks.traffic import traffic

COMMIT_INTERVALS_MS: Final = (5, 25, 100, 500)
DEFAULT_INTERVAL_MS: Final = 25
GOAL_P50_MS: Final = 50.0
GOAL_P99_MS: Final = 250.0
QUANTILES: Final = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)

_WARM_UP_SECONDS: Final = 3.0
_GRACE_SECONDS: Final = 120.0


class LatencyRun(BaseModel):
    """One setting. `commit_interval_ms` is None without a worker; `quantiles_ms` belong to QUANTILES."""

    model_config = ConfigDict(frozen=True)

    commit_interval_ms: int | None
    records: int
    quantiles_ms: list[float]
    pace: Pace
    worker_cores: float
    """CPU seconds a second, of the worker; likewise the others."""
    receiver_cores: float
    broker_cores: float
    transactions_per_second: float

    def quantile(self, percent: float) -> float:
        """One of QUANTILES, in milliseconds."""
        return self.quantiles_ms[QUANTILES.index(percent)]


class Latency(BaseModel):
    """All settings, at `rate` messages a second."""

    model_config = ConfigDict(frozen=True)

    rate: int
    seconds: float
    runs: list[LatencyRun]

    @property
    def default(self) -> LatencyRun:
        """The run with the worker's default settings."""
        return next(run for run in self.runs if run.commit_interval_ms == DEFAULT_INTERVAL_MS)


def measure_latency(
    testbed: Testbed,
    *,
    rate: int,
    seconds: float,
    tell: Callable[[str], None],
    intervals_ms: Sequence[int] = COMMIT_INTERVALS_MS,
) -> Latency:
    """Measure each setting for `seconds` after the warm-up. Raises BenchmarkFailed."""
    runs = []
    for interval in (None, *intervals_ms):
        tell("without a worker" if interval is None else f"commit interval {interval} ms")
        runs.append(_run(testbed, rate=rate, seconds=seconds, interval_ms=interval))
    return Latency(rate=rate, seconds=seconds, runs=runs)


def _run(testbed: Testbed, *, rate: int, seconds: float, interval_ms: int | None) -> LatencyRun:
    source = testbed.create_topic("paced")
    if interval_ms is None:
        run = _measure(testbed, source, source, rate=rate, seconds=seconds)
        testbed.delete_topics(source)
        return run
    target = testbed.create_topic("paced-clean")
    tuning = {"commitInterval": f"{interval_ms}ms"}
    home = testbed.scratch / target
    with Worker(home, testbed.bootstrap_servers, source, target, tuning) as worker:
        worker.wait_until_ready()
        run = _measure(testbed, source, target, rate=rate, seconds=seconds, worker=worker)
        run = run.model_copy(update={"commit_interval_ms": interval_ms})
    testbed.delete_topics(source, target)
    return run


def _measure(
    testbed: Testbed,
    source: str,
    target: str,
    *,
    rate: int,
    seconds: float,
    worker: Worker | None = None,
) -> LatencyRun:
    count = int(rate * (seconds + _WARM_UP_SECONDS))
    expected = len(traffic(count).first_at) if worker else count
    times_file, pace_file = (testbed.scratch / f"{target}{end}" for end in (".npy", ".pace"))
    receiving = ("benchmarks.receiver", testbed.bootstrap_servers, target, expected, times_file)
    sending = ("benchmarks.pacer", testbed.bootstrap_servers, source, count, rate, pace_file)
    worker_before, broker_before = _cpu(worker, testbed)
    with (
        Process(*receiving, log=times_file.with_suffix(".log")) as receiver,
        Process(*sending, log=pace_file.with_suffix(".log")) as pacer,
    ):
        pacer.wait(seconds + _GRACE_SECONDS)
        receiver.wait(_GRACE_SECONDS)
    worker_after, broker_after = _cpu(worker, testbed)
    pace = Pace.model_validate_json(pace_file.read_text())
    sent, received = np.load(times_file)
    if len(np.unique(sent)) < len(sent) * 0.99:
        raise BenchmarkFailed(f"{target}: the times of sending repeat themselves")
    counted = sent >= sent[0] + _WARM_UP_SECONDS * 1e9
    quantiles = np.percentile((received - sent)[counted] / 1e6, QUANTILES).tolist()
    transactions = worker.status().counts.transactions if worker else 0
    return LatencyRun(
        commit_interval_ms=None,
        records=int(counted.sum()),
        quantiles_ms=quantiles,
        pace=pace,
        worker_cores=(worker_after - worker_before) / pace.seconds,
        receiver_cores=float(times_file.with_suffix(".cpu").read_text()) / pace.seconds,
        broker_cores=(broker_after - broker_before) / pace.seconds,
        transactions_per_second=transactions / pace.seconds,
    )


def _cpu(worker: Worker | None, testbed: Testbed) -> tuple[float, float]:
    """CPU seconds so far of worker and broker."""
    return cpu_seconds_of(worker.pid) if worker else 0.0, cpu_seconds_of(testbed.broker_pid)
