"""Speed at which a starting worker reads ids from its output topic.

A worker processes a topic without duplicates. Then it is started again, several times each:
  - on the store it had when it was new, so that the whole output is the tail to read ("Tail");
  - without a store, which is rebuilt from the output ("Rebuild").
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final, Literal

from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed, Worker
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Sender, traffic

_DEADLINE_SECONDS: Final = 600.0

Kind = Literal["Tail", "Rebuild"]

KINDS: Final[tuple[Kind, ...]] = ("Tail", "Rebuild")


class ReconcileRun(Model):
    """A start.

    `seconds` are those of the read of the output, `ready_seconds` from the start of the process until it was ready,
    `cpu_seconds` all it had used by then.
    """

    kind: Kind
    reason: str
    records: int
    seconds: float
    ready_seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Records a second of the reconcile."""
        return self.records / self.seconds


class Reconcile(Model):
    """All starts."""

    records: int
    runs: list[ReconcileRun]

    def of(self, kind: Kind) -> list[ReconcileRun]:
        """Return the starts of a kind."""
        return [run for run in self.runs if run.kind == kind]

    def per_second(self, kind: Kind) -> float:
        """Return the median of a kind."""
        return median(run.per_second for run in self.of(kind))


def measure_reconcile(
    testbed: Testbed, *, records: int, rounds: int, report: Callable[[str], None]
) -> Reconcile:
    """Measure `rounds` starts of each kind. Raises BenchmarkFailed."""
    source, target = testbed.create_topic("reconcile"), testbed.create_topic("reconcile-clean")
    home = testbed.scratch / target
    servers = testbed.bootstrap_servers
    with Worker(home, servers, source, target) as worker:  # the empty store gets its stamp
        worker.wait_until_ready()
    state, as_new = worker.state_dir, home / "as-new"
    shutil.copytree(state, as_new)
    report(f"sending {records:,} messages and deduplicating them")
    Sender(servers, source).send(traffic(records, repeat_rate=0.0).numbers)
    with Worker(home, servers, source, target) as worker:
        worker.wait_until_committed(records, _DEADLINE_SECONDS)
    runs = []
    for number in range(1, rounds + 1):
        for kind in KINDS:
            report(f"round {number}: {kind.lower()}")
            shutil.rmtree(state)
            if kind == "Tail":
                shutil.copytree(as_new, state)
            runs.append(_start(home, testbed, source, target, kind))
    testbed.delete_topics(source, target)
    if wrong := [run for run in runs if run.records != records]:
        raise BenchmarkFailed(f"not all {records} records were read: {wrong[0]}")
    return Reconcile(records=records, runs=runs)


def _start(home: Path, testbed: Testbed, source: str, target: str, kind: Kind) -> ReconcileRun:
    with Worker(home, testbed.bootstrap_servers, source, target) as worker:
        ready_seconds, cpu_seconds, done = worker.wait_for_start(_DEADLINE_SECONDS)
    return ReconcileRun(
        kind=kind,
        reason=done.reason,
        records=done.records,
        seconds=done.seconds,
        ready_seconds=ready_seconds,
        cpu_seconds=cpu_seconds,
    )
