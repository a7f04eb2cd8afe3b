"""The cost of optional features: side topics, owner log, filters, delivery.

Each kind of stream takes its turn at the same backlog, which has few duplicates or many.
"""

from collections.abc import Callable
from statistics import median
from typing import Any, Final

from benchmarks.harness.model import Model
from benchmarks.harness.steady import Backlog, LoopRun, run_workers
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import HEADERS, Sender, traffic

REPEAT_RATES: Final = (0.006, 0.3)
PLAIN: Final = "plain"
OWNERS: Final = "duplicates and owners"

_SIDE: Final = "beside"
_DUPLICATES: Final = {"duplicates": {"policy": "Topic", "topic": _SIDE}}
_CONFLICTS: Final = {"conflicts": {"policy": "Topic", "topic": _SIDE}}
_KINDS: Final[dict[str, dict[str, Any]]] = {
    PLAIN: {},
    OWNERS: _DUPLICATES,
    "and conflicts": {**_DUPLICATES, **_CONFLICTS},
    "filters": {"output": {"filter": {"from": "Header", "name": HEADERS[0][0]}}},
    "at least once": {"delivery": "AtLeastOnce"},
}
"""Fields of the spec."""


class ExtraRound(Model):
    """A run of each kind."""

    runs: dict[str, LoopRun]

    def cost(self, kind: str) -> float:
        """Return the CPU time that a message takes more, as a share of the plain stream's."""
        return self.runs[PLAIN].per_cpu_second / self.runs[kind].per_cpu_second - 1


class ExtraRate(Model):
    """All rounds with the same share of duplicates."""

    repeat_rate: float
    rounds: list[ExtraRound]

    def cost(self, kind: str) -> float:
        """Return the median of all rounds."""
        return median(each.cost(kind) for each in self.rounds)


class Extras(Model):
    """All measurements."""

    messages: int
    rates: list[ExtraRate]


def measure_extras(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> Extras:
    """Measure all kinds for each share of duplicates. Raises BenchmarkFailed."""
    rates = []
    for repeat_rate in REPEAT_RATES:
        report(f"sending {messages:,} messages, of which {repeat_rate:.1%} are repeats")
        sent = traffic(messages, repeat_rate=repeat_rate)
        topic = testbed.create_topic("extras")
        Sender(testbed.bootstrap_servers, topic).send(sent.numbers, sent.value)
        backlog = Backlog(testbed, topic, sent)
        done = []
        for number in range(1, rounds + 1):
            runs = {}
            for kind, spec in _KINDS.items():
                report(f"{repeat_rate:.1%} repeats, round {number} of {rounds}: {kind}")
                runs[kind] = run_workers(backlog, spec=spec)
            done.append(ExtraRound(runs=runs))
        testbed.delete_topics(topic)
        rates.append(ExtraRate(repeat_rate=repeat_rate, rounds=done))
    testbed.delete_topics(_SIDE)
    return Extras(messages=messages, rates=rates)
