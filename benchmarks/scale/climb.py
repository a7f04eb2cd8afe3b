"""From rung to rung: fill the store, then let a worker have it."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from benchmarks.harness.testbed import Testbed
from benchmarks.scale.ids import FILL_REPEAT_RATE
from benchmarks.scale.limit import MemoryLimit
from benchmarks.scale.partition import Partition
from benchmarks.scale.result import Ageing, Rung, Scale

AGED_SHARE: Final = 0.8
"""Of the ids after the largest rung, what the window holds that ages."""

_FIRST_BYTES_PER_ID: Final = 48  # of the window, until it is measured what an id takes
_ROOM: Final = 1.15  # times that: all ids stay, in most of the window's generations
_MESSAGE_WORK: Final = (
    8  # as much as so many ids of a fill: sending, the worker, and reading the output again
)
_STARTS_WORK: Final = 6_000_000


class Follow(Protocol):
    """Takes the current step, and the work done since the last call, see `work_of`."""

    def __call__(self, what: str, done: float = 0) -> None: ...  # noqa: D102


def work_of(rungs: Sequence[int], messages: int) -> float:
    """Return the work of all steps, in units of an id of a fill."""
    runs = len(rungs) * (messages * _MESSAGE_WORK + _STARTS_WORK)
    return rungs[-1] * (2 - AGED_SHARE) + runs


def climb(
    testbed: Testbed,
    limit: MemoryLimit | None,
    *,
    rungs: Sequence[int],
    messages: int,
    follow: Follow,
    keep: Callable[[Scale], None],
) -> Scale:
    """Measure all steps, the ageing and a rebuild. Raises BenchmarkFailed.

    `keep` is called with the results so far after each of them.
    """
    most = rungs[-1] + messages * len(rungs)
    partition = Partition(testbed, limit, max_bytes=most * _FIRST_BYTES_PER_ID)
    result = Scale(limit_bytes=limit.limit_bytes if limit else None, messages=messages, rungs=[])
    for keys in rungs:
        rung = _rung(partition, keys, messages, follow)
        result = result.model_copy(update={"rungs": [*result.rungs, rung]})
        keep(result)
        partition.max_bytes = int(most * rung.bytes_per_id * _ROOM)
    follow("ageing")
    result = result.model_copy(update={"ageing": _ageing(partition, result.largest, follow)})
    keep(result)
    follow("rebuild from the output topic")
    result = result.model_copy(update={"rebuild": partition.rebuild()})
    keep(result)
    return result


def _rung(partition: Partition, keys: int, messages: int, follow: Follow) -> Rung:
    title = f"{keys / 1e6:g} M ids"
    follow(f"{title}: filling the store")
    count = max(messages, int((keys - partition.keys) / (1 - FILL_REPEAT_RATE)))
    filled = partition.fill(count, lambda done: follow(f"{title}: filling the store", done))
    keys = partition.keys
    partition.remember()
    follow(f"{title}: sending {messages:,} messages")
    new = partition.send(messages)
    follow(f"{title}: the worker", messages * _MESSAGE_WORK / 2)
    start, run = partition.run(messages, new)
    follow(f"{title}: starts", messages * _MESSAGE_WORK / 2)
    restart, tail = partition.restart(), partition.learn_tail()
    follow(title, _STARTS_WORK)
    return Rung(keys=keys, filled=filled, start=start, run=run, restart=restart, tail=tail)


def _ageing(partition: Partition, last: Rung, follow: Follow) -> Ageing:
    """Continue with a window that holds fewer ids than the store does."""
    partition.max_bytes = int(partition.keys * AGED_SHARE * last.bytes_per_id)
    count = int(partition.keys * (1 - AGED_SHARE))
    aged = partition.fill(count, lambda done: follow("ageing", done))
    return Ageing(max_bytes=partition.max_bytes, unaged=last.filled, aged=aged)
