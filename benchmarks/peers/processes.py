"""Processes of a peer with all their descendants: measured and killed together."""

import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import numpy as np
import psutil

from benchmarks.harness.processes import python_environment
from benchmarks.harness.sampler import Sampler
from benchmarks.peers.peer import Job, Peer
from dedupe_local.run import child_process as tether
from dedupe_worker.allocator import find_jemalloc, with_jemalloc

_SAMPLE_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 20.0
_GONE_SECONDS: Final = 10.0


class PeerProcesses:
    """A peer that works on a job, ended by its context manager; output goes to `log`.

    None of its processes outlives this process: see `dedupe_local.run.child_process`.
    (Spark's Java ends when its Python does.)
    """

    def __init__(self, peer: Peer, job: Job, log: Path) -> None:
        self.log = log
        # All peers use jemalloc if the machine has it: a worker does so by default, Flink's own images have it, and
        # Kafka Streams' documentation recommends it with RocksDB.
        inherited = with_jemalloc(os.environ, find_jemalloc()) or os.environ
        environment = {**python_environment(inherited), **peer.environment}
        with log.open("ab") as output:
            self._processes = [
                tether.spawn(command, output=output, env=environment)
                for command in peer.commands(job)
            ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        everyone = list(_tree(self.pids))
        tether.stop(self._processes, deadline_seconds=_STOP_SECONDS)
        _kill(everyone)
        psutil.wait_procs(everyone, _GONE_SECONDS)

    @property
    def pids(self) -> list[int]:
        """Of those that were started; they may have started others."""
        return [process.pid for process in self._processes]

    @property
    def exit_codes(self) -> list[int]:
        """Of those that have ended."""
        return [code for process in self._processes if (code := process.poll()) is not None]

    def kill(self) -> None:
        """End all of them at once with SIGKILL, as the loss of a machine would."""
        everyone = list(_tree(self.pids))
        _kill(everyone)
        for process in self._processes:  # first: who waits for a child gets to know its exit code
            process.wait(_GONE_SECONDS)
        psutil.wait_procs(everyone, _GONE_SECONDS)


class TreeMeter(Sampler):
    """CPU time over time, and peak memory, of processes and all their descendants.

    CPU seconds are user and system time. Memory is resident memory: a page that processes share counts for each of
    them. `used` is valid after the context. Descendants are searched once a second, to keep the cost low; a process
    that lives for less than that may be missed.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        super().__init__("tree meter", interval_seconds=_SAMPLE_SECONDS)
        self.peak_bytes = 0
        self._looked = -math.inf
        self._pids = pids
        self._processes: dict[int, psutil.Process] = {}
        self._used: dict[int, float] = {}  # by process; of those that have ended, too
        self._times: list[float] = []
        self._cpu_seconds: list[float] = []

    def used(self, start: float, end: float) -> float:
        """CPU seconds between two times (seconds since 1970)."""
        at = np.interp([start, end], self._times, self._cpu_seconds)
        return float(at[1] - at[0])

    def _sample(self) -> bool:
        if time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            for process in _tree(self._pids):
                self._processes.setdefault(process.pid, process)
        resident_bytes = 0
        for pid, process in self._processes.items():
            with suppress(psutil.NoSuchProcess), process.oneshot():
                times = process.cpu_times()
                self._used[pid] = times.user + times.system
                resident_bytes += process.memory_info().rss
        self._times.append(time.time())
        self._cpu_seconds.append(sum(self._used.values()))
        self.peak_bytes = max(self.peak_bytes, resident_bytes)
        return True


def _tree(pids: Sequence[int]) -> Iterator[psutil.Process]:
    """Yield the processes that exist, and their descendants."""
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            yield from (root, *root.children(recursive=True))


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # nor is a pid signalled that was given to another
            process.send_signal(signal.SIGKILL)
