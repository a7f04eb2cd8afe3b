"""The cost of optional features: side topics, owner log, filters, delivery.

Each kind of stream takes its turn at the same backlogs, which have few duplicates or many. The rounds go through all
of them, so that what many duplicates cost can be compared with what few do.
"""

from collections.abc import Callable
from statistics import median
from typing import Any, Final

from benchmarks.harness.model import Model
from benchmarks.harness.steady import Backlog, LoopRun, run_workers
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import HEADERS, Sender, traffic

REPEAT_RATES: Final = (0.006, 0.05, 0.3)
PLAIN: Final = "plain"
OWNERS: Final = "duplicates and owners"
CONFLICTS: Final = "conflicts"

_SIDE: Final = "beside"
_DUPLICATES: Final = {"duplicates": {"policy": "Topic", "topic": _SIDE}}
_CONFLICTS: Final = {"conflicts": {"policy": "Topic", "topic": _SIDE}}
KINDS: Final[dict[str, dict[str, Any]]] = {
    PLAIN: {},
    OWNERS: _DUPLICATES,
    "and conflicts": {**_DUPLICATES, **_CONFLICTS},
    CONFLICTS: _CONFLICTS,
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

    def micros(self, kind: str) -> float:
        """Return the CPU microseconds of a message."""
        return 1e6 / self.runs[kind].per_cpu_second


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

    def at(self, repeat_rate: float) -> list[ExtraRate]:
        """Return the rounds with this share of duplicates, if there are any."""
        return [each for each in self.rates if each.repeat_rate == repeat_rate]

    @property
    def few(self) -> ExtraRate:
        """The rounds with the fewest duplicates."""
        return min(self.rates, key=lambda each: each.repeat_rate)

    @property
    def many(self) -> ExtraRate:
        """The rounds with the most duplicates."""
        return max(self.rates, key=lambda each: each.repeat_rate)

    def repeat_cost(self, kind: str) -> float:
        """Return the CPU time of a repeat as a multiple of a passed record's.

        The median of the rounds. A stream of this kind takes `(1 - rate) * passed + rate * repeat` for a message: two
        rates tell both.
        """
        few, many = self.few, self.many

        def ratio(one: ExtraRound, other: ExtraRound) -> float:
            more = (other.micros(kind) - one.micros(kind)) / (many.repeat_rate - few.repeat_rate)
            return 1 + more / (one.micros(kind) - few.repeat_rate * more)

        return median(map(ratio, few.rounds, many.rounds))


def measure_extras(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> Extras:
    """Measure all kinds for each share of duplicates. Raises BenchmarkFailed."""
    backlogs = {}
    for repeat_rate in REPEAT_RATES:
        report(f"sending {messages:,} messages, of which {repeat_rate:.1%} are repeats")
        sent = traffic(messages, repeat_rate=repeat_rate)
        topic = testbed.create_topic("extras")
        Sender(testbed.bootstrap_servers, topic).send(sent.numbers, sent.value)
        backlogs[repeat_rate] = Backlog(testbed, topic, sent)
    done: dict[float, list[ExtraRound]] = {each: [] for each in REPEAT_RATES}
    for number in range(1, rounds + 1):
        for repeat_rate, backlog in backlogs.items():
            runs = {}
            for kind, spec in KINDS.items():
                report(f"round {number} of {rounds}, {repeat_rate:.1%} repeats: {kind}")
                runs[kind] = run_workers(backlog, spec=spec)
            done[repeat_rate].append(ExtraRound(runs=runs))
    testbed.delete_topics(*(each.topic for each in backlogs.values()), _SIDE)
    rates = [ExtraRate(repeat_rate=rate, rounds=each) for rate, each in done.items()]
    return Extras(messages=messages, rates=rates)
