"""CPU time and latency before and after a change: an earlier commit and this version, in one run.

Processes of both take turns at the same backlogs, and each round begins with the other one. The first round is not
counted, because a new broker compiles its code meanwhile. steady.py and latency.py define what is measured. The broker,
the sender and the receiver are this version's.
"""

from collections.abc import Callable
from os import pathsep
from pathlib import Path
from statistics import median
from typing import Final, Literal

import numpy as np

from benchmarks.cases.extras import CONFLICTS, KINDS, OWNERS, PLAIN
from benchmarks.cases.latency import DEFAULT_INTERVAL_MS, LatencyRun, run_latency
from benchmarks.cases.router import PARTITIONS, run_router_and_worker
from benchmarks.cases.router_worker import micros, run_alone
from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed, Environment
from benchmarks.harness.steady import Backlog, LoopRun, run_bare, run_workers
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Sender, send_to, traffic
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
    """All rounds; latency at `rate` messages per second."""

    base: str
    """The earlier commit, as it was named."""
    messages: int
    rate: int
    costs: list[Costs]
    latency: dict[Version, list[LatencyRun]]

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

    def percentile(self, version: Version, percent: float) -> float:
        """Return the median of the rounds, in milliseconds."""
        return median(run.quantile(percent) for run in self.latency[version])

    def percentiles(self, version: Version, percent: float) -> list[float]:
        """Return those of all rounds, the lowest first."""
        return sorted(run.quantile(percent) for run in self.latency[version])


Runs = dict[str, LoopRun]


def measure_change(
    testbed: Testbed,
    *,
    commit: str,
    messages: int,
    rate: int,
    rounds: int,
    seconds: float,
    report: Callable[[str], None],
) -> Change:
    """Measure `rounds` rounds of both versions. Raises BenchmarkFailed."""
    environments: dict[Version, Environment] = {
        "before": {"PYTHONPATH": _packages_of(commit, testbed.scratch / "before")},
        "after": {},
    }
    report(f"sending {messages:,} messages for each kind of backlog")
    turns = _turns(testbed, messages)
    costs: dict[str, dict[Version, list[float]]] = {}
    latency: dict[Version, list[LatencyRun]] = {"before": [], "after": []}
    for number in range(rounds + 1):
        order = VERSIONS if number % 2 else VERSIONS[::-1]
        for what, turn in turns.items():
            for version in order:
                report(f"round {number} of {rounds}: {what}, {version}")
                for part, run in turn(environments[version]).items():
                    cost = costs.setdefault(part, {"before": [], "after": []})[version]
                    cost += [micros(run)] * bool(number)
        for version in order:
            report(f"round {number} of {rounds}: {rate:,} messages/s, {version}")
            paced = run_latency(
                testbed,
                rate=rate,
                seconds=seconds,
                interval_ms=DEFAULT_INTERVAL_MS,
                environment=environments[version],
            )
            latency[version] += [paced] * bool(number)
    return Change(
        base=commit,
        messages=messages,
        rate=rate,
        costs=[Costs(what=what, **each) for what, each in costs.items()],
        latency=latency,
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


def _packages_of(commit: str, directory: Path) -> str:
    """Unpack a commit; return the path of its packages."""
    if unpack_earlier(commit, directory, ()) is None:
        raise BenchmarkFailed(f"no commit {commit} in the history of this directory, or no git")
    return pathsep.join(sorted({str(each.parent) for each in directory.glob("*/dedupe_*/")}))
