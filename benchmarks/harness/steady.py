"""Runs of one loop or several through a backlog, measured in steady state.

Steady state is the time between the moments at which the broker had appended 10 % and 95 % of the output (of several
loops: of each output). Start-up and the last commit are not part of it. Every output is read and judged afterwards.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from benchmarks.harness.check import Output, Verdict, check_copied, check_deduplicated
from benchmarks.harness.measure import CpuMeter, Speed, memory_of
from benchmarks.harness.pinning import Cores, pin
from benchmarks.harness.processes import BenchmarkFailed, Environment, Process, Worker
from benchmarks.harness.testbed import GroupOffset, Testbed
from benchmarks.harness.traffic import Traffic

_STEADY: Final = (0.10, 0.95)
_DEADLINE_SECONDS: Final = 600.0
_SHOWN_SECONDS: Final = 1.5  # a worker updates its window's status once a second


class LoopRun(Speed):
    """A run in its steady state; with several loops, figures are sums.

    Messages are those read from the input.
    """

    broker_cpu_seconds: float
    other_cpu_seconds: float
    """Of everything else on the machine: the benchmark itself, and whoever else was at work."""
    peak_bytes: int
    stages: dict[str, float] = Field(default_factory=dict)
    """Elapsed microseconds for a message in each stage of a worker's loop."""
    keys: int = 0
    """Ids that the workers remembered in the end."""
    verdicts: list[Verdict]


class Backlog(NamedTuple):
    """A topic each of whose partitions holds all of what was sent."""

    testbed: Testbed
    topic: str
    sent: Traffic


class _Lane(NamedTuple):
    """A loop and the partition it works on."""

    process: Process
    group: str
    partition: int


def run_bare(backlog: Backlog, environment: Environment = None) -> LoopRun:
    """Run the bare loop of bare_loop.py. Raises BenchmarkFailed.

    `environment` are variables in addition to this process's own.
    """
    testbed, topic, sent = backlog
    target = testbed.create_topic("bare", log_append_time=True)
    group = f"bare-{uuid4().hex[:8]}"
    arguments = (testbed.bootstrap_servers, topic, target, group, len(sent.numbers))
    log = testbed.scratch / f"{target}.log"
    with Process(
        "benchmarks.harness.bare_loop", *arguments, log=log, environment=environment
    ) as loop:
        meter, peak = _follow(backlog, [_Lane(loop, group, 0)])
    output = check_copied(testbed.bootstrap_servers, target, sent)
    testbed.delete_topics(target)
    return steady_run(meter, [output], np.arange(len(sent.numbers)), peak_bytes=peak)


def run_workers(
    backlog: Backlog,
    *,
    cores: Sequence[Cores | None] = (None,),
    tuning: Mapping[str, object] | None = None,
    spec: Mapping[str, object] | None = None,
    environment: Environment = None,
    with_stages: bool = False,
) -> LoopRun:
    """Run a worker for each of `cores`, on the partitions from 0 on.

    Each is bound to its cores unless they are None. The other arguments are as in `Worker`. `with_stages` reads the
    stages of the first worker. Raises BenchmarkFailed.
    """
    testbed, topic, sent = backlog
    target = testbed.create_topic("clean", partitions=len(cores), log_append_time=True)
    servers = testbed.bootstrap_servers
    with ExitStack() as running:
        workers = []
        for partition, own in enumerate(cores):
            home = testbed.scratch / f"{target}-{partition}"
            worker = Worker(
                home,
                *(servers, topic, target, tuning),
                spec=spec,
                partition=partition,
                environment=environment,
            )
            running.enter_context(worker)
            if own:
                pin(worker.pid, own)
            workers.append(worker)
        lanes = [_Lane(worker, worker.group, worker.partition) for worker in workers]
        stages = _Stages(workers[0], testbed, target, len(sent.first_at)) if with_stages else None
        meter, peak = _follow(backlog, lanes, stages.look if stages else None)
        time.sleep(_SHOWN_SECONDS)
        keys = sum(worker.status().window.keys for worker in workers)
    outputs = [check_deduplicated(servers, target, sent, lane.partition) for lane in lanes]
    testbed.delete_topics(target)
    run = steady_run(meter, outputs, sent.first_at, peak_bytes=peak)
    seen = {"keys": keys, "stages": stages.split() if stages else {}}
    return run.model_copy(update=seen)


class _Stages:
    """The stages of a worker at the begin and at the end of the steady state."""

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
        """Return microseconds per message in each stage, and between stages.

        Raises BenchmarkFailed if the worker was too fast to be sampled.
        """
        if len(self._seen) < len(self._due):
            raise BenchmarkFailed(
                "the worker finished before its stages could be read: use more --messages"
            )
        (start, first, before), (end, last, after) = self._seen
        seconds = {name: spent - before.get(name, 0.0) for name, spent in after.items()}
        seconds["between"] = end - start - sum(seconds.values())
        return {name: spent / (last - first) * 1e6 for name, spent in seconds.items()}


def _follow(
    backlog: Backlog, lanes: Sequence[_Lane], look: Callable[[], None] | None = None
) -> tuple[CpuMeter, int]:
    """Wait until all loops have committed everything.

    Returns the CPU meter, and the peak memory of the loops in bytes.
    """
    testbed, topic, sent = backlog
    peaks: dict[int, int] = {}
    with ExitStack() as open_offsets:
        meter = open_offsets.enter_context(
            CpuMeter(
                broker=testbed.broker_pid,
                **{f"loop {lane.partition}": lane.process.pid for lane in lanes},
            )
        )
        for lane in lanes:
            committed = GroupOffset(testbed.bootstrap_servers, lane.group, topic, lane.partition)
            open_offsets.callback(committed.close)

            def is_done(committed: GroupOffset = committed) -> bool:
                if look:
                    look()
                for each in lanes:
                    with suppress(
                        FileNotFoundError, KeyError
                    ):  # the bare loop ends when all is copied
                        peaks[each.partition] = memory_of(each.process.pid).peak
                return committed() >= len(sent.numbers)

            what = f"all of {topic}/{lane.partition} is committed"
            lane.process.wait_until(is_done, what, deadline_seconds=_DEADLINE_SECONDS)
        if look:
            look()
    return meter, sum(peaks.values())


def steady_run(
    meter: CpuMeter, outputs: Sequence[Output], positions: NDArray[np.int64], *, peak_bytes: int
) -> LoopRun:
    """Return the figures of loops, which the meter knows as "loop 0" and so on.

    `positions[i]` is where in the input the i-th record of an output stands. Raises BenchmarkFailed.
    """
    for output in outputs:
        if not output.verdict.is_clean:
            raise BenchmarkFailed(f"the output is wrong: {output.verdict}")
    span = steady_span([output.appended for output in outputs])
    ends = [np.searchsorted(output.appended, span) for output in outputs]
    loops = [meter.used(f"loop {lane}", *span) for lane in range(len(outputs))]
    broker, machine = meter.used("broker", *span), meter.used("machine", *span)
    return LoopRun(
        messages=int(sum(positions[last] - positions[first] for first, last in ends)),
        seconds=span[1] - span[0],
        cpu_seconds=sum(loops),
        broker_cpu_seconds=broker,
        other_cpu_seconds=machine - sum(loops) - broker,
        peak_bytes=peak_bytes,
        verdicts=[output.verdict for output in outputs],
    )


def steady_span(appended: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """From when to when all outputs were in their steady state, in seconds since 1970.

    `appended` are the times at which their records were appended. Raises BenchmarkFailed if there is no such time.
    """
    start, end = (
        each([float(times[int(len(times) * share)]) for times in appended])
        for each, share in zip((max, min), _STEADY, strict=True)
    )
    if start >= end:
        raise BenchmarkFailed(
            "the loops were never in their steady state together: use more --messages"
        )
    return start, end
