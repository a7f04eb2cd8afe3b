"""CPU time before and after a change: an earlier commit and this version, in one run.

Processes of both take turns at the same backlogs, see turns.py. steady.py defines what is measured. The broker is this
version's. change_latency.py does the same for latency.
"""

from collections.abc import Callable
from os import pathsep
from pathlib import Path
from statistics import median
from typing import Final, Literal

import numpy as np

from benchmarks.cases.extras import CONFLICTS, KINDS, OWNERS, PLAIN
from benchmarks.cases.router import PARTITIONS, run_router_and_worker
from benchmarks.cases.router_worker import micros, run_alone
from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed, Environment
from benchmarks.harness.steady import Backlog, LoopRun, run_bare, run_workers
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Sender, send_to, traffic
from benchmarks.harness.turns import orders
from tests.support.earlier_release import unpack_earlier

Version = Literal["before", "after"]
VERSIONS: Final[tuple[Version, ...]] = ("before", "after")

_WORK: Final = (
    ("passed, 5% repeats", 0.05, PLAIN),
    ("30% repeats, dropped", 0.3, PLAIN),
    ("30% repeats, to a topic", 0.3, OWNERS),
    ("5% repeats, conflicts to a topic", 0.05, CONFLICTS),
    ("5% repeats, with chunk filters", 0.05, "filters"),
)
ALONE: Final = "ids in a header, a worker alone"
ROUTER: Final = "the same, a router"
BEHIND: Final = "the same, the worker behind it"
BARE: Final = "bare loop"
"""It is the same before and after."""


class Costs(Model):
    """CPU microseconds of a message in each round."""

    what: str
    before: list[float]
    after: list[float]

    def of(self, version: Version) -> list[float]:
        """Return those of a version."""
        return self.before if version == "before" else self.after

    @property
    def ratio(self) -> float:
        """Return the median of after : before."""
        return median(b / a for a, b in zip(self.before, self.after, strict=True))


class Change(Model):
    """All rounds."""

    base: str
    """The earlier commit, as it was named."""
    messages: int
    costs: list[Costs]

    def cost(self, what: str) -> Costs:
        """Return the costs of this name."""
        return next(each for each in self.costs if each.what == what)

    def share(self, version: Version) -> float:
        """Return the share of the bare loop's messages per CPU second, the median."""
        bare, worker = self.cost(BARE), self.cost(_WORK[0][0])
        return median(a / b for a, b in zip(bare.of(version), worker.of(version), strict=True))

    def routed(self, version: Version) -> float:
        """Return the CPU time of a router and its worker : a worker alone, the median."""
        router, behind, alone = (self.cost(what).of(version) for what in (ROUTER, BEHIND, ALONE))
        return median((a + b) / c for a, b, c in zip(router, behind, alone, strict=True))


Runs = dict[str, LoopRun]


def measure_change(
    testbed: Testbed,
    *,
    commit: str,
    messages: int,
    rounds: int,
    report: Callable[[str], None],
) -> Change:
    """Measure `rounds` rounds of both versions. Raises BenchmarkFailed."""
    environments = environments_of(commit, testbed.scratch)
    report(f"sending {messages:,} messages for each kind of backlog")
    turns = _turns(testbed, messages)
    costs: dict[str, dict[Version, list[float]]] = {}
    for number, order in orders(VERSIONS, rounds):
        for what, turn in turns.items():
            for version in order:
                report(f"round {number} of {rounds}: {what}, {version}")
                for part, run in turn(environments[version]).items():
                    cost = costs.setdefault(part, {"before": [], "after": []})[version]
                    cost += [micros(run)] * bool(number)
    return Change(
        base=commit,
        messages=messages,
        costs=[Costs(what=what, **each) for what, each in costs.items()],
    )


def _turns(testbed: Testbed, messages: int) -> dict[str, Callable[[Environment], Runs]]:
    """Send the backlogs; return what takes turns at them, by names."""
    backlogs = {rate: _send(testbed, messages, rate) for _, rate, _ in _WORK}
    sent = traffic(messages, keyed=False)
    unkeyed, whole = (
        Backlog(testbed, testbed.create_topic("unkeyed", partitions=number), sent)
        for number in (PARTITIONS, 1)
    )
    for backlog, number in ((unkeyed, PARTITIONS), (whole, 1)):
        send_to(testbed.bootstrap_servers, backlog.topic, sent, np.arange(messages) % number)

    def working(what: str, rate: float, kind: str) -> Callable[[Environment], Runs]:
        return lambda of: {what: run_workers(backlogs[rate], spec=KINDS[kind], environment=of)}

    def routing(of: Environment) -> Runs:
        return dict(zip((ROUTER, BEHIND), run_router_and_worker(unkeyed, of), strict=True))

    return {
        BARE: lambda _: {BARE: run_bare(backlogs[_WORK[0][1]])},
        **{work[0]: working(*work) for work in _WORK},
        ALONE: lambda of: {ALONE: run_alone(whole, of)},
        ROUTER: routing,
    }


def _send(testbed: Testbed, messages: int, repeat_rate: float) -> Backlog:
    sent = traffic(messages, repeat_rate=repeat_rate)
    topic = testbed.create_topic("change")
    Sender(testbed.bootstrap_servers, topic).send(sent.numbers, sent.value)
    return Backlog(testbed, topic, sent)


def environments_of(commit: str, scratch: Path) -> dict[Version, Environment]:
    """Unpack a commit; return the environments of processes of both versions.

    Raises BenchmarkFailed.
    """
    directory = scratch / "before"
    if unpack_earlier(commit, directory, ()) is None:
        raise BenchmarkFailed(f"no commit {commit} in the history of this directory, or no git")
    packages = sorted({str(each.parent) for each in directory.glob("*/dedupe_*/")})
    return {"before": {"PYTHONPATH": pathsep.join(packages)}, "after": {}}
