"""The begin of each step of a growth, and the delays of messages meanwhile. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.growth.result import Delays, Period
from benchmarks.harness.traffic import key_of
from dedupe_crds.status.growth import GrowthStep
from dedupe_ids.jump_hash import partitions_of_ids

ASKED: Final = "asked"
"""The time until the first step: topics get their partitions."""


class Step(NamedTuple):
    """A step and when it began, on the monotonic clock."""

    name: str
    began_ns: int


class Steps:
    """The steps of a growth that was asked for at `asked_ns`; `see` takes each look at it."""

    def __init__(self, asked_ns: int) -> None:
        self.begun = [Step(ASKED, asked_ns)]

    def see(self, step: GrowthStep | None, now_ns: int) -> None:
        """Take the present step, None if there is none yet."""
        if step is not None and step.value != self.begun[-1].name:
            self.begun.append(Step(step.value, now_ns))

    @property
    def done(self) -> bool:
        """Return whether the last step was seen."""
        return self.begun[-1].name == GrowthStep.DONE

    @property
    def asked_ns(self) -> int:
        """The time at which the growth was asked for."""
        return self.begun[0].began_ns

    @property
    def done_ns(self) -> int:
        """The time at which it was seen to be done."""
        return self.begun[-1].began_ns

    def spans(self) -> list[tuple[str, int, int]]:
        """Return each step that has ended, with its begin and its end."""
        return [(step.name, step.began_ns, after.began_ns) for step, after in pairwise(self.begun)]


class Received(NamedTuple):
    """The messages that were received: (n,) each; `moves` tells whether the id moves."""

    due_ns: NDArray[np.int64]
    delay_ms: NDArray[np.float64]
    moves: NDArray[np.bool_]

    def during(self, name: str, begin_ns: int, end_ns: int) -> Period:
        """Return the delays of the messages that were due in a period."""
        there = (begin_ns <= self.due_ns) & (self.due_ns < end_ns)
        return Period(
            name=name,
            seconds=(end_ns - begin_ns) / 1e9,
            stays=delays_of(self.delay_ms[there & ~self.moves]),
            moves=delays_of(self.delay_ms[there & self.moves]),
        )


def delays_of(delay_ms: NDArray[np.float64]) -> Delays | None:
    """Summarize delays; None of none."""
    if not len(delay_ms):
        return None
    p50, p99, most = np.percentile(delay_ms, [50, 99, 100]).tolist()
    return Delays(records=len(delay_ms), p50_ms=p50, p99_ms=p99, longest_ms=most)


def partitions_of(numbers: Iterable[int], counts: Sequence[int]) -> list[NDArray[np.intp]]:
    """Return the partition of each message's id, for each number of partitions."""
    texts = b"".join(key_of(number) for number in numbers)
    packed = bytes.fromhex(texts.replace(b"-", b"").decode())
    return [partitions_of_ids(packed, count) for count in counts]
