"""Throughput of one worker compared with a bare loop.

One partition, a backlog, exactly once, the broker on the same machine. The bare loop is as Python starts it. A
worker uses jemalloc where the machine has it (see the worker's allocator.py), so the bare loop is measured with
that, too. They take turns on the same input topic, each time with a new output topic and an empty store, for values
of several sizes. steady.py defines what is measured. The first bare run of a size only warms up the broker and is
not counted.

A worker's 10 % fall on the end of its first transaction and its 95 % into the middle of the last, so nine writes to the
store are compared with the messages of eight and a half transactions. With far fewer messages than a million it is the
other way round: the cost at a transaction's end is not counted, and the share flatters the worker. Half a million
messages of 4 KiB are enough: their transactions end by time, before they have their full number of records.
"""

import os
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from benchmarks.harness.model import Model
from benchmarks.harness.steady import Backlog, LoopRun, run_bare, run_workers
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import VALUE_BYTES, Sender, traffic
from dedupe_worker.allocator import find_jemalloc, with_jemalloc

ENOUGH_MESSAGES: Final = 500_000
SIZES_BYTES: Final = (VALUE_BYTES, 128, 4096)

_MOST_BYTES: Final = 2048  # of values for each of `messages`


class Pair(Model):
    """A bare run, a bare run with the worker's allocator, and a worker's run."""

    bare: LoopRun
    bare_jemalloc: LoopRun | None = None
    worker: LoopRun

    @property
    def cpu_share(self) -> float:
        """The worker's messages a CPU second, as a share of the bare loop's."""
        return self.worker.per_cpu_second / self.bare.per_cpu_second


class Size(Model):
    """All rounds with values of the same size."""

    value_bytes: int
    messages: int
    rounds: list[Pair]

    @property
    def cpu_share(self) -> float:
        """The median of the rounds' shares."""
        return median(pair.cpu_share for pair in self.rounds)

    @property
    def bare_per_cpu_second(self) -> float:
        """The bare loop's messages a CPU second, the median."""
        return median(pair.bare.per_cpu_second for pair in self.rounds)

    @property
    def worker_per_cpu_second(self) -> float:
        """The worker's, the median."""
        return median(pair.worker.per_cpu_second for pair in self.rounds)

    @property
    def jemalloc_share(self) -> float | None:
        """The share of the bare loop's messages per CPU second with jemalloc, the median."""
        shares = [
            pair.worker.per_cpu_second / pair.bare_jemalloc.per_cpu_second
            for pair in self.rounds
            if pair.bare_jemalloc
        ]
        return median(shares) if shares else None

    @property
    def is_short(self) -> bool:
        """True if there are too few messages for a fair share, see above."""
        return self.messages < ENOUGH_MESSAGES

    @property
    def stages(self) -> dict[str, float]:
        """The median of each of the worker's stages, and of what is between them."""
        runs = [pair.worker for pair in self.rounds]
        return {name: median(run.stages[name] for run in runs) for name in runs[0].stages}


class Throughput(Model):
    """All sizes."""

    sizes: list[Size]

    @property
    def by_bytes(self) -> list[Size]:
        """All sizes, from the smallest values on."""
        return sorted(self.sizes, key=lambda size: size.value_bytes)

    @property
    def usual(self) -> Size:
        """The size that the other benchmarks send, too."""
        return next((size for size in self.sizes if size.value_bytes == VALUE_BYTES), self.sizes[0])


def measure_throughput(
    testbed: Testbed,
    *,
    messages: int,
    rounds: int,
    report: Callable[[str], None],
    sizes_bytes: Sequence[int] = SIZES_BYTES,
) -> Throughput:
    """Measure `rounds` pairs for each size. Raises BenchmarkFailed.

    It also raises that if an output is wrong.
    """
    return Throughput(
        sizes=[_measure(testbed, size, messages, rounds, report) for size in sizes_bytes]
    )


def messages_of(messages: int, value_bytes: int) -> int:
    """Return how many messages to send with values of a size: fewer of large ones."""
    return min(messages, messages * _MOST_BYTES // value_bytes)


def _measure(
    testbed: Testbed, size: int, messages: int, rounds: int, report: Callable[[str], None]
) -> Size:
    count = messages_of(messages, size)
    what = f"values of {size} bytes"
    report(f"{what}: sending {count:,} messages")
    backlog = send_backlog(testbed, count, value_bytes=size)
    report(f"{what}: warming up")
    run_bare(backlog)
    jemalloc = with_jemalloc(os.environ, find_jemalloc())
    pairs = []
    for number in range(1, rounds + 1):
        report(f"{what}, round {number} of {rounds}: bare loop")
        bare = run_bare(backlog)
        bare_jemalloc = run_bare(backlog, jemalloc) if jemalloc else None
        report(f"{what}, round {number} of {rounds}: worker")
        worker = run_workers(backlog, with_stages=True)
        pairs.append(Pair(bare=bare, bare_jemalloc=bare_jemalloc, worker=worker))
    testbed.delete_topics(backlog.topic)
    return Size(value_bytes=size, messages=count, rounds=pairs)


def send_backlog(
    testbed: Testbed, count: int, *, value_bytes: int = VALUE_BYTES, partitions: int = 1
) -> Backlog:
    """Send `count` messages to each partition of a new topic. Raises SendFailed."""
    sent = traffic(count, value_bytes=value_bytes)
    topic = testbed.create_topic("backlog", partitions=partitions)
    for partition in range(partitions):
        Sender(testbed.bootstrap_servers, topic, partition).send(sent.numbers, sent.value)
    return Backlog(testbed, topic, sent)
