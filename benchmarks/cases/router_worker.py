"""CPU time of a router and its worker, compared with that of a worker alone.

All three read the same messages: the worker alone in one partition of an input, the router in several, and the worker
behind it in one partition of the repartition topic. They take turns, so that none burdens another; each is measured in
its own steady state.
"""

import numpy as np

from benchmarks.harness.check import check_all_partitions
from benchmarks.harness.measure import CpuMeter, memory_of
from benchmarks.harness.model import Model
from benchmarks.harness.processes import Environment, Worker
from benchmarks.harness.router import UNKEYED_SPEC
from benchmarks.harness.steady import Backlog, LoopRun, run_workers, steady_run
from benchmarks.harness.testbed import GroupOffset


class WithWorker(Model):
    """A worker's run alone, a router's run, and the run of the worker behind it."""

    alone: LoopRun
    router: LoopRun
    behind: LoopRun

    @property
    def ratio(self) -> float:
        """CPU time of a message, router and worker together : worker alone."""
        return (micros(self.router) + micros(self.behind)) / micros(self.alone)


def micros(run: LoopRun) -> float:
    """Return the CPU microseconds of a message."""
    return 1e6 / run.per_cpu_second


def run_alone(backlog: Backlog, environment: Environment = None) -> LoopRun:
    """Run a worker without a router on a topic of one partition. Raises BenchmarkFailed."""
    return run_workers(backlog, spec=UNKEYED_SPEC, environment=environment)


def run_behind(
    routed: Backlog,
    source: str,
    output: str,
    spec: dict[str, object],
    environment: Environment = None,
) -> LoopRun:
    """Run the worker of what a router has written. Raises BenchmarkFailed.

    `source` is the router's input, `spec` the manifest's as the router had it.
    """
    testbed, between, sent = routed
    servers, home = testbed.bootstrap_servers, testbed.scratch / output
    end = testbed.end_offset(between) - 1  # the last one is a transaction marker
    topics = (servers, source, output)
    with Worker(home, *topics, spec=spec, environment=environment) as worker:
        with CpuMeter(broker=testbed.broker_pid, **{"loop 0": worker.pid}) as meter:
            committed = GroupOffset(servers, worker.group, between)
            try:
                worker.wait_until(lambda: committed() >= end, f"all of {between} is committed")
            finally:
                committed.close()
        peak = memory_of(worker.pid).peak
    found = check_all_partitions(servers, output, sent, partitions=1, deduplicated=True)
    # Records of several input partitions: which of them comes first is not decided.
    verdict = found.verdict.model_copy(update={"reordered": 0})
    positions = np.linspace(0, len(sent.numbers), len(sent.first_at), endpoint=False)
    return steady_run(
        meter,
        [found._replace(verdict=verdict)],
        positions.astype(np.int64),
        peak_bytes=peak,
    )
