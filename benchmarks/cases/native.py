"""The native path compared with today's: CPU time for values of several sizes, and latency, in one run.

Workers of both take turns at the same backlogs and at the same rate, see turns.py. steady.py and latency.py define what
is measured. docs/decisions/0050 has what the path is.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, Literal

from benchmarks.cases.latency import DEFAULT_INTERVAL_MS, PairedLatency, run_latency
from benchmarks.cases.throughput import SIZES_BYTES, messages_of, send_backlog
from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed, Environment
from benchmarks.harness.steady import LoopRun, run_workers
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.turns import take_turns
from dedupe_worker.cli import NATIVE

Way = Literal["today", "native"]

_SITE: Final = Path("build/native/site")


class NativeSize(Model):
    """All rounds with values of the same size."""

    value_bytes: int
    messages: int
    runs: dict[Way, list[LoopRun]]

    def micros(self, way: Way) -> float:
        """Return the CPU microseconds of a message, the median."""
        return 1e6 / median(run.per_cpu_second for run in self.runs[way])

    def per_second(self, way: Way) -> float:
        """Return the messages a second, the median."""
        return median(run.per_second for run in self.runs[way])

    @property
    def gains(self) -> list[float]:
        """The messages a CPU second, native : today, of all rounds, the lowest first."""
        pairs = zip(self.runs["today"], self.runs["native"], strict=True)
        return sorted(native.per_cpu_second / today.per_cpu_second for today, native in pairs)


class NativeUse(Model):
    """All sizes, and latency with the usual one."""

    sizes: list[NativeSize]
    latency: PairedLatency

    def size(self, value_bytes: int) -> NativeSize:
        """Return the rounds with values of this size."""
        return next(each for each in self.sizes if each.value_bytes == value_bytes)


def measure_native(
    testbed: Testbed,
    *,
    messages: int,
    rounds: int,
    rate: int,
    seconds: float,
    report: Callable[[str], None],
) -> NativeUse:
    """Measure `rounds` rounds of both. Raises BenchmarkFailed, also if an output is wrong."""
    if not _SITE.is_dir():
        raise BenchmarkFailed(f"{_SITE} is missing; run `make native`")
    environments: dict[Way, Environment] = {
        "today": {NATIVE: ""},
        "native": {NATIVE: "1", "PYTHONPATH": str(_SITE.absolute())},
    }
    sizes = []
    for value_bytes in SIZES_BYTES:
        what, count = f"values of {value_bytes} bytes", messages_of(messages, value_bytes)
        report(f"{what}: sending {count:,} messages")
        backlog = send_backlog(testbed, count, value_bytes=value_bytes)
        loops = take_turns(
            what, environments, partial(run_workers, backlog), rounds=rounds, report=report
        )
        testbed.delete_topics(backlog.topic)
        sizes.append(NativeSize(value_bytes=value_bytes, messages=count, runs=loops))
    run = partial(run_latency, testbed, rate=rate, seconds=seconds, interval_ms=DEFAULT_INTERVAL_MS)
    paced = take_turns(f"{rate:,} messages/s", environments, run, rounds=rounds, report=report)
    return NativeUse(sizes=sizes, latency=PairedLatency(rate=rate, seconds=seconds, runs={**paced}))
