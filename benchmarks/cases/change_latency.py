"""Latency before and after a change: an earlier commit and this version, in one run.

Workers of both take turns at the same rate, and each round begins with the other one. The first round is not counted,
because a new broker compiles its code meanwhile. latency.py defines what is measured. The broker, the sender and the
receiver are this version's.
"""

from collections.abc import Callable
from statistics import median

from benchmarks.cases.change import VERSIONS, Version, environments_of
from benchmarks.cases.latency import DEFAULT_INTERVAL_MS, LatencyRun, run_latency
from benchmarks.harness.model import Model
from benchmarks.harness.testbed import Testbed


class ChangeLatency(Model):
    """All rounds, at `rate` messages per second."""

    base: str
    """The earlier commit, as it was named."""
    rate: int
    seconds: float
    runs: dict[Version, list[LatencyRun]]

    def percentile(self, version: Version, percent: float) -> float:
        """Return the median of the rounds, in milliseconds."""
        return median(self.percentiles(version, percent))

    def percentiles(self, version: Version, percent: float) -> list[float]:
        """Return those of all rounds, the lowest first."""
        return sorted(run.quantile(percent) for run in self.runs[version])


def measure_change_latency(
    testbed: Testbed,
    *,
    commit: str,
    rate: int,
    rounds: int,
    seconds: float,
    report: Callable[[str], None],
) -> ChangeLatency:
    """Measure `rounds` rounds of both versions. Raises BenchmarkFailed."""
    environments = environments_of(commit, testbed.scratch)
    runs: dict[Version, list[LatencyRun]] = {"before": [], "after": []}
    for number in range(rounds + 1):
        for version in VERSIONS if number % 2 else VERSIONS[::-1]:
            report(f"round {number} of {rounds}: {rate:,} messages/s, {version}")
            run = run_latency(
                testbed,
                rate=rate,
                seconds=seconds,
                interval_ms=DEFAULT_INTERVAL_MS,
                environment=environments[version],
            )
            runs[version] += [run] * bool(number)
    return ChangeLatency(base=commit, rate=rate, seconds=seconds, runs=runs)
