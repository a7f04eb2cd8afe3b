"""Results as a benchmark would give them."""

from benchmarks.cases.latency import QUANTILES, Latency, LatencyRun
from benchmarks.cases.throughput import Pair, Size
from benchmarks.harness.check import Verdict
from benchmarks.harness.pacer import Pace
from benchmarks.harness.steady import LoopRun

CLEAN = Verdict(expected=95, found=95, lost=0, twice=0, altered=0, reordered=0)


def loop_run(
    *,
    messages: int = 100,
    seconds: float = 1.0,
    cpu_seconds: float = 1.0,
    broker: float = 0.3,
    other: float = 0.1,
) -> LoopRun:
    """A run; `broker` and `other` are CPU seconds."""
    return LoopRun(
        messages=messages,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        broker_cpu_seconds=broker,
        other_cpu_seconds=other,
        peak_bytes=1 << 20,
        stages={"produce": 2.0, "consume": 1.0},
        keys=95,
        verdicts=[CLEAN],
    )


def size(value_bytes: int, *shares: float) -> Size:
    """A size with a round for each share of the bare loop's messages a CPU second."""
    bare = loop_run(messages=1000)
    pairs = [Pair(bare=bare, worker=loop_run(messages=int(1000 * share))) for share in shares]
    return Size(value_bytes=value_bytes, messages=1000, rounds=pairs)


def latency_run(interval_ms: int | None, rate: int, milliseconds: float) -> LatencyRun:
    """A run all of whose messages took as long."""
    pace = Pace(
        start_ns=0,
        rate=rate,
        late_p50_ms=0.5,
        late_p99_ms=1.0,
        late_max_ms=2.0,
        seconds=10.0,
        cpu_seconds=1.0,
    )
    return LatencyRun(
        commit_interval_ms=interval_ms,
        rate=rate,
        records=100,
        quantiles_ms=[milliseconds] * len(QUANTILES),
        pace=pace,
        worker_cores=0.4,
        receiver_cores=0.1,
        broker_cores=0.5,
        transactions_per_second=10.0,
    )


def latency(*, usual_ms: float, half_load_ms: float) -> Latency:
    """A result at 10,000 and at 80,000 messages a second."""
    return Latency(
        rate=10_000,
        seconds=10.0,
        runs=[latency_run(None, 10_000, 4.0), latency_run(25, 10_000, usual_ms)],
        capacity=160_000.0,
        half_load=[latency_run(None, 80_000, 6.0), latency_run(25, 80_000, half_load_ms)],
    )
