"""The cost of a window that ages all the time.

The same messages pass a window that keeps every id, and then a window that drops its oldest ids all the time. All
duplicates come soon after their original, so both write the same output.
"""

from collections.abc import Callable
from statistics import median
from typing import Final

from benchmarks.harness.model import Model
from benchmarks.harness.steady import Backlog, LoopRun, run_workers
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Sender, traffic

VALUE_BYTES: Final = 128  # the smaller, the more of the loop is the store's part
MAX_AGE_SECONDS: Final = 5

_SPEC: Final = {"store": {"window": {"maxAge": f"{MAX_AGE_SECONDS}s", "alertBelow": "0s"}}}


class AgeingPair(Model):
    """A run that forgot nothing, and a run that did."""

    keeping: LoopRun
    ageing: LoopRun

    @property
    def cost(self) -> float:
        """The CPU time that ageing adds to a message, as a share."""
        return self.keeping.per_cpu_second / self.ageing.per_cpu_second - 1


class Ageing(Model):
    """All rounds."""

    messages: int
    rounds: list[AgeingPair]

    @property
    def cost(self) -> float:
        """The median."""
        return median(pair.cost for pair in self.rounds)


def measure_ageing(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> Ageing:
    """Measure `rounds` pairs. Raises BenchmarkFailed."""
    report(f"sending {messages:,} messages")
    sent = traffic(messages, value_bytes=VALUE_BYTES, near_share=1.0)
    topic = testbed.create_topic("ageing")
    Sender(testbed.bootstrap_servers, topic).send(sent.numbers, sent.value)
    backlog = Backlog(testbed, topic, sent)
    pairs = []
    for number in range(1, rounds + 1):
        report(f"round {number} of {rounds}: a window that keeps every id")
        keeping = run_workers(backlog)
        report(f"round {number} of {rounds}: a window that ages")
        pairs.append(AgeingPair(keeping=keeping, ageing=run_workers(backlog, spec=_SPEC)))
    testbed.delete_topics(topic)
    return Ageing(messages=messages, rounds=pairs)
