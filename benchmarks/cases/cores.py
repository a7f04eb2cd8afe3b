"""Speed of a worker on one core, and of two workers on two partitions.

One worker: all its threads are bound to one core, broker and benchmark to the others. Two workers: each is bound to its
own core; broker and benchmark use the remaining cores, or share all cores if none remains. So on a machine of two cores
two workers cannot be twice as fast. The possible speed follows from the CPU time that was left for them.
"""

import os
from collections.abc import Callable
from statistics import median
from typing import Final

from benchmarks.cases.throughput import send_backlog
from benchmarks.harness.model import Model
from benchmarks.harness.pinning import available_cores, pinned
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.steady import Backlog, LoopRun, run_workers
from benchmarks.harness.testbed import Testbed

_WORKERS: Final = 2


class CoresPair(Model):
    """One worker on one core, and then two on two."""

    cores: int
    """Those that everything together may use."""
    one: LoopRun
    two: LoopRun

    @property
    def speedup(self) -> float:
        """The messages per second of two workers, divided by those of one."""
        return self.two.per_second / self.one.per_second

    @property
    def possible_speedup(self) -> float:
        """The CPU time left for two workers, divided by that of one; at most 2."""
        taken = (self.two.broker_cpu_seconds + self.two.other_cpu_seconds) / self.two.seconds
        return min(_WORKERS, (self.cores - taken) / (self.one.cpu_seconds / self.one.seconds))


class CoreUse(Model):
    """All rounds, with so many messages in each partition."""

    messages: int
    rounds: list[CoresPair]

    @property
    def per_minute(self) -> float:
        """Messages per minute of one worker on one core, the median."""
        return median(pair.one.per_second for pair in self.rounds) * 60

    @property
    def speedup(self) -> float:
        """The median."""
        return median(pair.speedup for pair in self.rounds)

    @property
    def possible_speedup(self) -> float:
        """The median."""
        return median(pair.possible_speedup for pair in self.rounds)


def measure_cores(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> CoreUse:
    """Measure `rounds` pairs. Raises BenchmarkFailed, also on a single core."""
    report(f"sending {messages:,} messages to each of {_WORKERS} partitions")
    if len(available_cores()) < _WORKERS:
        raise BenchmarkFailed(f"to bind workers to cores takes at least {_WORKERS} of them")
    backlog = send_backlog(testbed, messages, partitions=_WORKERS)
    pairs = []
    for number in range(1, rounds + 1):
        report(f"round {number} of {rounds}: one worker on one core")
        one = _run(backlog, 1)
        report(f"round {number} of {rounds}: two workers on two cores")
        pairs.append(CoresPair(cores=len(available_cores()), one=one, two=_run(backlog, _WORKERS)))
    testbed.delete_topics(backlog.topic)
    return CoreUse(messages=messages, rounds=pairs)


def _run(backlog: Backlog, workers: int) -> LoopRun:
    own = available_cores()[:workers]
    others = set(available_cores()) - set(own) or set(available_cores())
    with pinned(os.getpid(), backlog.testbed.broker_pid, cores=others):
        return run_workers(backlog, cores=[{core} for core in own])
