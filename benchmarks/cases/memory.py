"""Memory of a worker: with ever more ids, and with short and long backlogs.

Many keys: three workers run on one store, in turn. The first fills it to a tenth of the keys with messages of the
usual size. The second fills it to nine tenths with tiny messages, of which many fit into a queue that is bounded in
bytes. The third fills it with usual messages again. The messages wait in the topic when a worker starts. Backlogs:
a new worker with an empty store starts on a topic that holds the whole backlog.

Memory is VmRSS of /proc/PID/status (and RssAnon, which excludes the files of libraries), sampled; the peak is VmHWM.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.harness.measure import Memory, memory_of
from benchmarks.harness.model import Model
from benchmarks.harness.processes import Worker
from benchmarks.harness.testbed import GroupOffset, Testbed
from benchmarks.harness.traffic import REPEAT_RATE, Sender, tiny_value, traffic, value_of

_PHASES: Final = (
    ("usual messages", 0.1, value_of),
    ("tiny messages", 0.9, tiny_value),
    ("usual messages", 1.0, value_of),
)
_SAMPLE_SECONDS: Final = 0.2
_REST_SECONDS: Final = 5.0
_DEADLINE_SECONDS: Final = 1800.0


class Sample(Model):
    """Memory in bytes when the input was read up to `offset`."""

    offset: int
    resident: int
    anonymous: int


class MemoryRun(Model):
    """A worker's memory from start to end, in bytes.

    `working` is the highest sample while it processed the waiting messages, `idle` the resident memory some seconds
    later, `peak` that since the start of the process. `keys` are those at the end.
    """

    what: str
    messages: int
    keys: int
    working: int
    working_anonymous: int
    idle: int
    idle_anonymous: int
    peak: int
    samples: list[Sample]


class MemoryUse(Model):
    """Workers with ever more keys, in order, and with backlogs, short and long."""

    growing: list[MemoryRun]
    backlogs: list[MemoryRun]

    @property
    def peak(self) -> int:
        """The most that any of them took, in bytes."""
        return max(run.peak for run in (*self.growing, *self.backlogs))


def measure_memory(
    testbed: Testbed, *, keys: int, backlogs: tuple[int, int], report: Callable[[str], None]
) -> MemoryUse:
    """Measure with `keys` ids in the store, and with `backlogs` of messages.

    Raises BenchmarkFailed.
    """
    growing = _many_keys(testbed, keys, report)
    waiting = []
    for messages in backlogs:
        report(f"a backlog of {messages:,} messages")
        source, target = testbed.create_topic("backlog"), testbed.create_topic("backlog-clean")
        Sender(testbed.bootstrap_servers, source).send(traffic(messages).numbers)
        what = f"empty store, {messages:,} waiting"
        waiting.append(_run(testbed, testbed.scratch / target, source, target, what))
        testbed.delete_topics(source, target)
    return MemoryUse(growing=growing, backlogs=waiting)


def _many_keys(testbed: Testbed, keys: int, report: Callable[[str], None]) -> list[MemoryRun]:
    source, target = testbed.create_topic("keys"), testbed.create_topic("keys-clean")
    sender = Sender(testbed.bootstrap_servers, source)
    numbers = traffic(int(keys / (1 - REPEAT_RATE))).numbers
    runs, sent = [], 0
    for what, share, value in _PHASES:
        end = int(len(numbers) * share)
        title = f"to {keys * share / 1e6:g} M keys, {what}"
        report(f"{title}: sending {end - sent:,}")
        sender.send(numbers[sent:end], value)
        sent = end
        report(title)
        runs.append(_run(testbed, testbed.scratch / target, source, target, title))
    testbed.delete_topics(source, target)
    return runs


def _run(testbed: Testbed, home: Path, source: str, target: str, what: str) -> MemoryRun:
    """Let a worker read all of `source`, and sample its memory until it is idle."""
    end = testbed.end_offset(source)
    taken: list[tuple[int, Memory]] = []
    with Worker(home, testbed.bootstrap_servers, source, target) as worker:
        committed = GroupOffset(testbed.bootstrap_servers, worker.group, source)

        def is_done() -> bool:
            taken.append((committed(), memory_of(worker.pid)))
            return taken[-1][0] >= end

        try:
            worker.wait_until(
                is_done,
                f"it has committed offset {end}",
                deadline_seconds=_DEADLINE_SECONDS,
                poll_seconds=_SAMPLE_SECONDS,
            )
        finally:
            committed.close()
        rest_until = time.monotonic() + _REST_SECONDS
        worker.wait_until(lambda: time.monotonic() >= rest_until, "it has rested")
        idle, status = memory_of(worker.pid), worker.status()
    return MemoryRun(
        what=what,
        messages=status.counts.consumed,
        keys=status.window.keys,
        working=max(memory.resident for _, memory in taken),
        working_anonymous=max(memory.anonymous for _, memory in taken),
        idle=idle.resident,
        idle_anonymous=idle.anonymous,
        peak=idle.peak,
        samples=[
            Sample(offset=offset, resident=memory.resident, anonymous=memory.anonymous)
            for offset, memory in taken
        ],
    )
