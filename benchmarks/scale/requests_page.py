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
        f"partitions in one process, {load.seconds:g} s for each row,"
    )
    yield (
        f"and a broker on the same {machine.cores} cores ({machine.cpu}, {machine.measured:%Y-%m-%d}, load average "
        f"{machine.load_before:.1f} before). Requests are"
    )
    yield (
        f"counted by librdkafka, and multiplied by {load.partitions:,} / {load.workers}; the last column is "
        "as measured, other work of the broker included."
    )


def _rows(load: Load) -> Iterator[str]:
    figures = ["commits", "transactions' requests", *_OTHERS, "all requests", "received, MB"]
    yield _row(
        f"messages a second in each of {load.partitions:,} partitions",
        ["`maxCommitInterval`", *figures, "broker's CPU for a commit, ms"],
    )
    yield "| --- |" + " ---: |" * (len(_OTHERS) + 6)
    factor = load.partitions / load.workers
    for case in load.cases:
        counted = case.counted
        of_transactions = sum(counted.get(name, 0) for name in _TRANSACTION)
        rates = [counted["commits"], of_transactions]
        rates += [*(counted.get(name, 0) for name in _OTHERS), case.requests]
        cells = [case.bound or "default", *(f"{rate * factor:,.0f}" for rate in rates)]
        cells += [f"{counted['bytes'] * factor / 1e6:,.1f}", _cpu_ms(case)]
        yield _row(f"{case.rate:g}", cells)


def _cpu_ms(case: Case) -> str:
    commits = case.counted["commits"]
    return f"{1000 * case.counted['cpu'] / commits:.1f}" if commits else ""


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"
