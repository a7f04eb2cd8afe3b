"""How much one worker does beside a bare loop: 1 partition, a backlog, exactly once, the broker on the same machine.

Bare loop and worker take turns on the same input topic, each time with a new output topic and an empty store. Both are
measured between the moments at which the broker had appended 10 % and 95 % of the output: start-up and the last
commit are not in it. The first bare run only warms up the broker and is thrown away.

A worker's 10 % fall on the end of its first transaction and its 95 % into the middle of the last, so nine writes to
the store are held against the messages of eight and a half transactions. With far fewer messages than a million it is
the other way round: what a transaction costs in its end is left out, and the share flatters the worker.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import Final, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from benchmarks.check import Verdict, check_copied, check_deduplicated
from benchmarks.measure import CpuMeter, memory_of
from benchmarks.processes import BenchmarkFailed, Process, Worker
from benchmarks.testbed import GroupOffset, Testbed
from benchmarks.traffic import Sender, Traffic, traffic

GOAL_SHARE: Final = 0.70
ENOUGH_MESSAGES: Final = 1_000_000

_STEADY: Final = (0.10, 0.95)
_DEADLINE_SECONDS: Final = 600.0


class LoopRun(BaseModel):
    """One run, in its steady state. Messages are those read from the input."""

    model_config = ConfigDict(frozen=True)

    messages: int
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float
    other_cpu_seconds: float
    """Of everything else on the machine: the benchmark itself, and whoever else was at work."""
    peak_bytes: int
    stages: dict[str, float] = {}
    """Elapsed microseconds for a message in each stage of a worker's loop."""
    verdict: Verdict

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Messages a CPU second of the loop's own process."""
        return self.messages / self.cpu_seconds


class Pair(BaseModel):
    """A bare run and the worker's run after it."""

    model_config = ConfigDict(frozen=True)

    bare: LoopRun
    worker: LoopRun

    @property
    def cpu_share(self) -> float:
        """The worker's messages a CPU second, as a share of the bare loop's."""
        return self.worker.per_cpu_second / self.bare.per_cpu_second

    @property
    def speed_share(self) -> float:
        """The worker's messages a second, as a share of the bare loop's."""
        return self.worker.per_second / self.bare.per_second


class Throughput(BaseModel):
    """All rounds."""

    model_config = ConfigDict(frozen=True)

    messages: int
    rounds: list[Pair]

    @property
    def cpu_share(self) -> float:
        """The median of the rounds' shares."""
        return median(pair.cpu_share for pair in self.rounds)

    @property
    def stages(self) -> dict[str, float]:
        """The median of each stage, and of what is between them."""
        runs = [pair.worker for pair in self.rounds]
        return {name: median(run.stages[name] for run in runs) for name in runs[0].stages}


class _Job(NamedTuple):
    testbed: Testbed
    source: str
    sent: Traffic
    round: int


def measure_throughput(
    testbed: Testbed, *, messages: int, rounds: int, tell: Callable[[str], None]
) -> Throughput:
    """Measure `rounds` pairs. Raises BenchmarkFailed, also if an output is not exactly what it must be."""
    tell(f"sending {messages:,} messages")
    sent = traffic(messages)
    source = testbed.create_topic("throughput")
    Sender(testbed.bootstrap_servers, source).send(sent.numbers)
    tell("warming up")
    _run_bare(_Job(testbed, source, sent, 0))
    pairs = []
    for number in range(1, rounds + 1):
        job = _Job(testbed, source, sent, number)
        tell(f"round {number} of {rounds}: bare loop")
        bare = _run_bare(job)
        tell(f"round {number} of {rounds}: worker")
        pairs.append(Pair(bare=bare, worker=_run_worker(job)))
    testbed.delete_topics(source)
    return Throughput(messages=messages, rounds=pairs)


def _run_bare(job: _Job) -> LoopRun:
    testbed, source, sent, number = job
    target = testbed.create_topic("bare", log_append_time=True)
    group = f"bare-{uuid4().hex[:8]}"
    arguments = (testbed.bootstrap_servers, source, target, group, len(sent.numbers))
    log = testbed.scratch / f"bare-{number}.log"
    with Process("benchmarks.bare_loop", *arguments, log=log) as loop:
        meter, peak = _follow(job, loop, group)
    output = check_copied(testbed.bootstrap_servers, target, sent)
    testbed.delete_topics(target)
    positions = np.arange(len(sent.numbers))
    return _steady(meter, output.appended, positions, output.verdict, peak_bytes=peak, stages={})


def _run_worker(job: _Job) -> LoopRun:
    testbed, source, sent, number = job
    target = testbed.create_topic("clean", log_append_time=True)
    home = testbed.scratch / f"worker-{number}"
    with Worker(home, testbed.bootstrap_servers, source, target) as worker:
        stages = _Stages(worker, testbed, target, len(sent.first_at))
        meter, peak = _follow(job, worker, worker.group, stages)
    output = check_deduplicated(testbed.bootstrap_servers, target, sent)
    testbed.delete_topics(target)
    return _steady(
        meter,
        output.appended,
        sent.first_at,
        output.verdict,
        peak_bytes=peak,
        stages=stages.split(),
    )


class _Stages:
    """Looks at a worker's stages twice: when the output has reached the begin of the steady state, and its end."""

    def __init__(self, worker: Worker, testbed: Testbed, target: str, expected: int) -> None:
        self._worker, self._testbed, self._target = worker, testbed, target
        self._due = [int(expected * share) for share in _STEADY]
        self._seen: list[tuple[float, int, dict[str, float]]] = []

    def look(self) -> None:
        """Look, if it is time."""
        looks = len(self._seen)
        if looks < len(self._due) and self._testbed.end_offset(self._target) >= self._due[looks]:
            self._seen.append((time.monotonic(), *self._worker.stage_seconds()))

    def split(self) -> dict[str, float]:
        """Microseconds a message in each stage, and between them. Raises BenchmarkFailed if it was too fast."""
        if len(self._seen) < len(self._due):
            raise BenchmarkFailed(
                "the worker was done before it could be looked at: more --messages"
            )
        (start, first, before), (end, last, after) = self._seen
        seconds = {name: spent - before.get(name, 0.0) for name, spent in after.items()}
        seconds["between"] = end - start - sum(seconds.values())
        return {name: spent / (last - first) * 1e6 for name, spent in seconds.items()}


def _follow(
    job: _Job, loop: Process, group: str, stages: _Stages | None = None
) -> tuple[CpuMeter, int]:
    """Wait until the loop has committed everything; returns what it used, and its peak memory in bytes."""
    everything = len(job.sent.numbers)
    committed = GroupOffset(job.testbed.bootstrap_servers, group, job.source)
    peak = 0

    def is_done() -> bool:
        nonlocal peak
        if stages:
            stages.look()
        with suppress(FileNotFoundError, KeyError):  # the bare loop ends by itself
            peak = memory_of(loop.pid).peak
        return committed() >= everything

    try:
        with CpuMeter(loop=loop.pid, broker=job.testbed.broker_pid) as meter:
            loop.wait_until(
                is_done, f"all of {job.source} is committed", deadline_seconds=_DEADLINE_SECONDS
            )
    finally:
        committed.close()
    return meter, peak


def _steady(
    meter: CpuMeter,
    appended: NDArray[np.float64],
    positions: NDArray[np.int64],
    verdict: Verdict,
    *,
    peak_bytes: int,
    stages: dict[str, float],
) -> LoopRun:
    """`positions[i]` is where in the input the i-th record of the output stands."""
    if not verdict.is_clean:
        raise BenchmarkFailed(f"the output is not what it must be: {verdict}")
    first, last = (int(len(appended) * share) for share in _STEADY)
    start, end = float(appended[first]), float(appended[last])
    used = {name: meter.used(name, start, end) for name in ("loop", "broker", "machine")}
    return LoopRun(
        messages=int(positions[last] - positions[first]),
        seconds=end - start,
        cpu_seconds=used["loop"],
        broker_cpu_seconds=used["broker"],
        other_cpu_seconds=used["machine"] - used["loop"] - used["broker"],
        peak_bytes=peak_bytes,
        stages=stages,
        verdict=verdict,
    )
