"""Latency before and after a change: an earlier commit and this version, in one run.

Workers of both take turns at the same rate, see turns.py. latency.py defines what is measured. The broker, the sender
and the receiver are this version's.
"""

from collections.abc import Callable
from functools import partial

from benchmarks.cases.change import environments_of
from benchmarks.cases.latency import DEFAULT_INTERVAL_MS, PairedLatency, run_latency
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.turns import take_turns


class ChangeLatency(PairedLatency):
    """All rounds."""

    base: str
    """The earlier commit, as it was named."""


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
    run = partial(run_latency, testbed, rate=rate, seconds=seconds, interval_ms=DEFAULT_INTERVAL_MS)
    environments = environments_of(commit, testbed.scratch)
    runs = take_turns(f"{rate:,} messages/s", environments, run, rounds=rounds, report=report)
    return ChangeLatency(base=commit, rate=rate, seconds=seconds, runs={**runs})
