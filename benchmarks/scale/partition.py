"""A partition with its store, and its processes under the memory limit.

The broker is not limited.
"""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import httpx
import numpy as np

from benchmarks.harness.measure import Memory, cpu_seconds_of, memory_of
from benchmarks.harness.processes import BenchmarkFailed, Process, Worker
from benchmarks.harness.testbed import GroupOffset, Testbed
from benchmarks.harness.traffic import Sender
from benchmarks.scale.fill import FillPlan, Progress
from benchmarks.scale.ids import message_numbers
from benchmarks.scale.limit import MemoryLimit
from benchmarks.scale.result import Filled, Run, Start
from dedupe_crds.status.worker import Phase

_STEADY: Final = (0.10, 0.95)
_POLL_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 0.1
_DEADLINE_SECONDS: Final = 1800.0
_BEGUN: Final = frozenset({Phase.RECONCILING, Phase.RUNNING})


class Partition:
    """A partition with its topics and its store, whose window may take `max_bytes`."""

    def __init__(self, testbed: Testbed, limit: MemoryLimit | None, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._testbed = testbed
        self._limit = limit
        self._source = testbed.create_topic("scale")
        self._target = testbed.create_topic("scale-clean")
        self._home = testbed.scratch / self._target
        self._state, self._kept = self._home / "state", self._home / "kept"
        self._sender = Sender(testbed.bootstrap_servers, self._source)
        self._filled = self._sent = self._fills = 0
        with self._worker() as worker:  # the empty store gets its identity and its stamp
            worker.wait_until_ready()

    @property
    def keys(self) -> int:
        """Different ids that the store has been given, by fills and in messages."""
        return self._filled + self._sent

    def fill(self, count: int, report: Callable[[int], None]) -> Filled:
        """Give the store so many ids. Raises BenchmarkFailed.

        `report` is called with the number of ids added since its last call.
        """
        self._fills += 1
        plan = FillPlan(
            database=self._state / "db",
            max_bytes=self.max_bytes,
            known=self._filled,
            count=count,
        )
        log = self._testbed.scratch / f"fill-{self._fills}.log"
        told = 0

        def is_done() -> bool:
            nonlocal told
            *_, last = ("", *log.read_text().splitlines())
            if last.startswith('{"done"') and last.endswith("}"):
                done = Progress.model_validate_json(last).done
                report(done - told)
                told = done
            return last.startswith('{"ids"')

        with self._limited():
            process = Process("benchmarks.scale.fill", plan.model_dump_json(), log=log)
        with process:
            process.wait_until(
                is_done,
                "it is done",
                deadline_seconds=_DEADLINE_SECONDS,
                poll_seconds=_LOOK_SECONDS,
            )
            process.wait(_DEADLINE_SECONDS)
        filled = Filled.model_validate_json(log.read_text().splitlines()[-1])
        report(count - told)
        self._filled = filled.known
        return filled

    def send(self, messages: int) -> int:
        """Send messages for the next worker; return how many of them are new.

        Raises SendFailed.
        """
        numbers, new = message_numbers(self._sent, messages, np.random.default_rng(self._sent))
        self._sender.send(numbers)
        self._sent += new
        return new

    def run(self, messages: int, new: int) -> tuple[Start, Run]:
        """Start a worker on the sent messages, and kill it when it has processed them.

        Raises BenchmarkFailed.
        """
        first = self._testbed.end_offset(self._target)
        with self._worker() as worker:
            start = _watch_start(worker)
            run = self._follow(worker, first, new)
            counts = worker.status().counts
            worker.kill()
        if (counts.produced, counts.duplicates) != (new, messages - new):
            raise BenchmarkFailed(f"{new} messages of {messages} should have passed: {counts}")
        return start, run

    def restart(self) -> Start:
        """Start a worker on the store as it is. Raises BenchmarkFailed."""
        with self._worker() as worker:
            return _watch_start(worker)

    def remember(self) -> None:
        """Keep the store as it is now, for `learn_tail`."""
        shutil.copytree(self._state, self._kept, copy_function=_link_or_copy)

    def learn_tail(self) -> Start:
        """Start a worker on the kept store: it reads the newer ids from the output topic."""
        aside = self._home / "aside"
        self._state.rename(aside)
        self._kept.rename(self._state)
        start = self.restart()
        shutil.rmtree(self._state)
        aside.rename(self._state)
        return start

    def rebuild(self) -> Start:
        """Start a worker without a store: it reads the ids of all messages.

        Raises BenchmarkFailed.
        """
        self._state.rename(self._kept)
        start = self.restart()
        if start.records != self._sent:
            raise BenchmarkFailed(f"{start.records} records were read again, not {self._sent}")
        return start

    def _follow(self, worker: Worker, first: int, new: int) -> Run:
        """Measure the steady state: between 10 % and 95 % of the output."""
        due = [first + int(new * share) for share in _STEADY]
        looks: list[tuple[float, float, int, dict[str, float]]] = []
        memory: list[Memory] = []
        end = self._testbed.end_offset(self._source)
        committed = GroupOffset(self._testbed.bootstrap_servers, worker.group, self._source)

        def is_done() -> bool:
            memory.append(memory_of(worker.pid))
            if len(looks) < len(due) and self._testbed.end_offset(self._target) >= due[len(looks)]:
                used = cpu_seconds_of(worker.pid)
                looks.append((time.monotonic(), used, *worker.stage_seconds()))
            return committed() >= end and worker.status().counts.produced >= new

        try:
            worker.wait_until(is_done, "all is through", deadline_seconds=_DEADLINE_SECONDS)
        finally:
            committed.close()
        if len(looks) < len(due):
            raise BenchmarkFailed(
                "the worker finished before it could be measured: use more --messages"
            )
        (since, cpu, consumed, before), (until, cpu_until, consumed_until, after) = looks
        messages = consumed_until - consumed
        stages = {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}
        return Run(
            messages=messages,
            seconds=until - since,
            cpu_seconds=cpu_until - cpu,
            stages={name: seconds / messages * 1e6 for name, seconds in stages.items()},
            resident=max(each.resident for each in memory),
            anonymous=max(each.anonymous for each in memory),
            peak=max(each.peak for each in memory),
            group_peak=self._limit.peak_bytes() if self._limit else 0,
        )

    def _worker(self) -> Worker:
        window = {"window": {"maxBytes": self.max_bytes}}
        with self._limited():
            return Worker(
                *(self._home, self._testbed.bootstrap_servers, self._source, self._target),
                spec={"store": window, "storage": {"size": 3 * self.max_bytes}},
            )

    def _limited(self) -> AbstractContextManager[None]:
        """Return a context; processes started inside of it are under the limit."""
        return self._limit.entered() if self._limit else nullcontext()


def _watch_start(worker: Worker) -> Start:
    def has_begun() -> bool:
        try:
            return worker.status().phase in _BEGUN
        except (FileNotFoundError, httpx.TransportError):  # it does not answer yet
            return False

    worker.wait_until(
        has_begun, "it catches up", deadline_seconds=_DEADLINE_SECONDS, poll_seconds=_POLL_SECONDS
    )
    reconciling = time.monotonic() - worker.began
    ready_seconds, cpu_seconds, done = worker.wait_for_start(_DEADLINE_SECONDS)
    return Start(
        reconciling_seconds=reconciling,
        ready_seconds=ready_seconds,
        cpu_seconds=cpu_seconds,
        reason=done.reason,
        records=done.records,
        reconcile_seconds=done.seconds,
    )


def _link_or_copy(source: str, target: str) -> None:
    """RocksDB never changes a table's file, and may change any other."""
    (os.link if source.endswith(".sst") else shutil.copy2)(source, target)
