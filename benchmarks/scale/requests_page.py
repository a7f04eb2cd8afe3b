"""The part of docs/scale.md with the requests of many partitions. `requests` measures them."""

import re
from collections.abc import Iterator
from typing import Final

from benchmarks.harness.machine import Machine
from benchmarks.harness.model import Model

_PART: Final = re.compile(
    r"^Measured with `python -m benchmarks\.scale\.requests`(?:.*\n)+?\n(?:\|.*\n)+",
    re.MULTILINE,
)
_TRANSACTION: Final = (
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "Produce",
)
_OTHERS: Final = ("Fetch", "ListOffsets", "Metadata")


class Case(Model):
    """The cost of all workers of a run in a second, each with so many messages a second.

    `counted` has the requests by type, `commits`, received `bytes`, and the broker's CPU seconds as `cpu`. `bound` is
    the stream's maxCommitInterval, empty for the default.
    """

    rate: float
    bound: str
    counted: dict[str, float]

    @property
    def requests(self) -> float:
        """Return the requests of all types."""
        return sum(v for name, v in self.counted.items() if name not in {"commits", "bytes", "cpu"})


class Load(Model):
    """A run of some workers of a stream with `partitions` partitions."""

    partitions: int
    workers: int
    seconds: float
    cases: list[Case]


def with_requests(text: str, load: Load, machine: Machine) -> str:
    """Return a page with these figures. Raises ValueError if it has no place for them."""
    part = "\n".join([*_introduction(load, machine), "", *_rows(load)]) + "\n"
    changed, times = _PART.subn(lambda _: part, text)
    if times != 1:
        raise ValueError("the page has no place for the requests")
    return changed


def _introduction(load: Load, machine: Machine) -> Iterator[str]:
    yield (
        f"Measured with `python -m benchmarks.scale.requests`: {load.workers} workers of {load.partitions:,} "
        f"partitions in one process, {load.seconds:g} s for each column,"
    )
    yield (
        f"and a broker on the same {machine.cores} cores ({machine.cpu}, {machine.measured:%Y-%m-%d}, load average "
        f"{machine.load_before:.1f} before). Requests are"
    )
    yield (
        f"counted by librdkafka, and multiplied by {load.partitions:,} / {load.workers}; the broker's CPU time is as "
        "measured, for each commit."
    )


def _rows(load: Load) -> Iterator[str]:
    yield _row(
        f"of {load.partitions:,} partitions, a second", [_title(each) for each in load.cases]
    )
    yield "| --- |" + " ---: |" * len(load.cases)
    factor = load.partitions / load.workers
    for name in ("commits", *_TRANSACTION, *_OTHERS):
        yield _row(name, [f"{each.counted.get(name, 0) * factor:,.0f}" for each in load.cases])
    yield _row("all requests", [f"{each.requests * factor:,.0f}" for each in load.cases])
    megabytes = [each.counted["bytes"] * factor / 1e6 for each in load.cases]
    yield _row("received, MB", [f"{each:,.1f}" for each in megabytes])
    yield _row("broker's CPU time for each commit, ms", [_cpu_ms(each) for each in load.cases])


def _title(case: Case) -> str:
    rate = f"{case.rate:g} messages/s in each" if case.rate else "at rest"
    return f"{rate}, `maxCommitInterval: {case.bound}`" if case.bound else rate


def _cpu_ms(case: Case) -> str:
    commits = case.counted["commits"]
    return f"{1000 * case.counted['cpu'] / commits:.2f}" if commits else ""


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"
