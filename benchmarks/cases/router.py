"""Throughput of one router compared with a bare loop.

An input whose messages have their id in a header and no key, a backlog, exactly once, the broker on the same machine.
The copies of an id are in other partitions of the input. Router and bare loop take turns on the same input, each time
with a new repartition topic, and each round begins with the other one. The bare loop has the router's client settings,
batches and transactions, and copies each record to the partition of the same number. steady.py defines what is
measured. The first bare run only warms up the broker and is not counted. router_worker.py compares a router and its
worker with a worker alone, in the same rounds.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from statistics import median
from typing import Final
from uuid import uuid4

import numpy as np
from pydantic import Field

from benchmarks.cases.router_worker import WithWorker, run_alone, run_behind
from benchmarks.harness.check import check_all_partitions, check_routed
from benchmarks.harness.measure import CpuMeter, memory_of
from benchmarks.harness.model import Model
from benchmarks.harness.processes import Environment, Process
from benchmarks.harness.router import UNKEYED_SPEC, Router
from benchmarks.harness.steady import Backlog, LoopRun, steady_run
from benchmarks.harness.testbed import GroupOffset, Testbed
from benchmarks.harness.traffic import VALUE_BYTES, send_to, traffic

PARTITIONS: Final = 4
"""Of the input and of the repartition topic."""

_DEADLINE_SECONDS: Final = 600.0


class RouterPair(Model):
    """A bare run and a router's run."""

    bare: LoopRun
    router: LoopRun

    @property
    def cpu_share(self) -> float:
        """The router's messages a CPU second, as a share of the bare loop's."""
        return self.router.per_cpu_second / self.bare.per_cpu_second


class RouterUse(Model):
    """All rounds."""

    messages: int
    value_bytes: int
    partitions: int
    rounds: list[RouterPair]
    with_worker: list[WithWorker] = Field(default_factory=list)

    @property
    def shares(self) -> list[float]:
        """The share of each round, the smallest first."""
        return sorted(pair.cpu_share for pair in self.rounds)

    @property
    def cpu_share(self) -> float:
        """The median of the rounds' shares."""
        return median(self.shares)

    @property
    def with_worker_ratio(self) -> float:
        """CPU time of a message, router and worker together : worker alone, the median."""
        return median(each.ratio for each in self.with_worker)

    @property
    def bare_per_cpu_second(self) -> float:
        """The bare loop's messages a CPU second, the median."""
        return median(pair.bare.per_cpu_second for pair in self.rounds)

    @property
    def bare_per_second(self) -> float:
        """The bare loop's messages a second, the median."""
        return median(pair.bare.per_second for pair in self.rounds)

    @property
    def per_cpu_second(self) -> float:
        """The router's messages a CPU second, the median."""
        return median(pair.router.per_cpu_second for pair in self.rounds)

    @property
    def per_second(self) -> float:
        """The router's messages a second, the median."""
        return median(pair.router.per_second for pair in self.rounds)


def measure_router(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> RouterUse:
    """Measure `rounds` pairs. Raises BenchmarkFailed, also if an output is wrong."""
    report(f"sending {messages:,} messages")
    sent = traffic(messages, keyed=False)
    topic = testbed.create_topic("unkeyed", partitions=PARTITIONS)
    send_to(testbed.bootstrap_servers, topic, sent, np.arange(messages) % PARTITIONS)
    backlog = Backlog(testbed, topic, sent)
    report("warming up")
    _run_bare(backlog)
    whole = Backlog(testbed, testbed.create_topic("whole"), sent)
    send_to(testbed.bootstrap_servers, whole.topic, sent, np.zeros(messages, np.intp))
    pairs, with_worker = [], []
    for number in range(1, rounds + 1):
        runs = {}
        order = [("bare loop", _run_bare), ("router", run_router)]
        # Each round begins with the other one, so that what a turn leaves behind burdens none in particular.
        for what, run in order if number % 2 else reversed(order):
            report(f"round {number} of {rounds}: {what}")
            runs[what] = run(backlog)
        pairs.append(RouterPair(bare=runs["bare loop"], router=runs["router"]))
        report(f"round {number} of {rounds}: a worker alone, then a router and its worker")
        router, behind = run_router_and_worker(backlog)
        with_worker.append(WithWorker(alone=run_alone(whole), router=router, behind=behind))
    testbed.delete_topics(topic, whole.topic)
    return RouterUse(
        messages=messages,
        value_bytes=VALUE_BYTES,
        partitions=PARTITIONS,
        rounds=pairs,
        with_worker=with_worker,
    )


def _run_bare(backlog: Backlog) -> LoopRun:
    testbed, topic, sent = backlog
    target = testbed.create_topic("bare", partitions=PARTITIONS, log_append_time=True)
    group = f"bare-{uuid4().hex[:8]}"
    arguments = (testbed.bootstrap_servers, topic, target, group, len(sent.numbers), PARTITIONS)
    log = testbed.scratch / f"{target}.log"
    with Process("benchmarks.harness.bare_router", *arguments, log=log) as loop:
        meter, peak = _follow(backlog, loop, group)
    output = check_all_partitions(
        testbed.bootstrap_servers, target, sent, partitions=PARTITIONS, deduplicated=False
    )
    testbed.delete_topics(target)
    return steady_run(meter, [output], np.arange(len(sent.numbers)), peak_bytes=peak)


def run_router(backlog: Backlog, environment: Environment = None) -> LoopRun:
    """Run a router. Raises BenchmarkFailed, also if its output is wrong.

    `environment` are variables in addition to this process's own.
    """
    testbed, _, _ = backlog
    target = testbed.create_topic("routed", partitions=PARTITIONS, log_append_time=True)
    run = _route(backlog, target, f"{target}-clean", PARTITIONS, environment)
    testbed.delete_topics(target)
    return run


def run_router_and_worker(
    backlog: Backlog, environment: Environment = None
) -> tuple[LoopRun, LoopRun]:
    """Run a router, then the only worker behind it. Raises BenchmarkFailed."""
    testbed, topic, sent = backlog
    target = testbed.create_topic("routed", log_append_time=True)
    output = testbed.create_topic("clean", log_append_time=True)
    router = _route(backlog, target, output, 1, environment)
    routed = Backlog(testbed, target, sent)
    behind = run_behind(routed, topic, output, _spec(target, 1), environment)
    testbed.delete_topics(target, output)
    return router, behind


def _spec(target: str, partitions: int) -> dict[str, object]:
    repartition = {"partitions": partitions, "topic": {"name": target}}
    return {**UNKEYED_SPEC, "repartition": repartition}


def _route(
    backlog: Backlog, target: str, output: str, partitions: int, environment: Environment
) -> LoopRun:
    """Run a router until it has routed all; check what it has written."""
    testbed, topic, sent = backlog
    home, servers = testbed.scratch / target, testbed.bootstrap_servers
    spec = _spec(target, partitions)
    with Router(home, servers, topic, output, spec, environment=environment) as router:
        meter, peak = _follow(backlog, router, router.group)
    found = check_routed(servers, target, sent, partitions=partitions)
    return steady_run(meter, [found], np.arange(len(sent.numbers)), peak_bytes=peak)


def _follow(backlog: Backlog, loop: Process, group: str) -> tuple[CpuMeter, int]:
    """Wait until a loop has committed all; return its CPU and its peak memory in bytes."""
    testbed, topic, sent = backlog
    servers, peak = testbed.bootstrap_servers, 0
    with ExitStack() as cleanup:
        meter = cleanup.enter_context(CpuMeter(broker=testbed.broker_pid, **{"loop 0": loop.pid}))
        committed = [GroupOffset(servers, group, topic, each) for each in range(PARTITIONS)]
        for each in committed:
            cleanup.callback(each.close)

        def is_done() -> bool:
            nonlocal peak
            with suppress(FileNotFoundError, KeyError):  # the bare loop ends when all is copied
                peak = memory_of(loop.pid).peak
            return _sum(committed) >= len(sent.numbers)

        loop.wait_until(is_done, f"all of {topic} is committed", deadline_seconds=_DEADLINE_SECONDS)
    return meter, peak


def _sum(committed: Sequence[GroupOffset]) -> int:
    return sum(offset() for offset in committed)
