"""Meters of processes, read from /proc: CPU time and memory."""

import time
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import psutil

from benchmarks.harness.model import Model
from benchmarks.harness.sampler import Sampler

_CPU_SAMPLE_SECONDS: Final = 0.05


class Speed(Model):
    """Messages, the seconds they took, and the CPU seconds of their processing."""

    messages: float
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Messages a CPU second."""
        return self.messages / self.cpu_seconds


class CpuMeter(Sampler):
    """CPU seconds of processes and of the whole machine, over time.

    User and system time of all threads. `used` is valid after the context. A process must have no children, as is
    the case for the worker, the bare loop and the broker.
    """

    def __init__(self, **pids: int) -> None:
        super().__init__("cpu meter", interval_seconds=_CPU_SAMPLE_SECONDS)
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._times: list[float] = []
        self._seconds: dict[str, list[float]] = {name: [] for name in (*pids, "machine")}

    def used(self, name: str, start: float, end: float) -> float:
        """Return the CPU seconds that a process used between two times.

        `name` may be "machine"; times are in seconds since 1970.
        """
        at = np.interp([start, end], self._times, self._seconds[name])
        return float(at[1] - at[0])

    def _sample(self) -> bool:
        used = {}
        try:
            for name, process in self._processes.items():
                times = process.cpu_times()
                used[name] = times.user + times.system
        except psutil.NoSuchProcess:
            return False  # it has come to its end, and what matters was before that
        machine = psutil.cpu_times()
        used["machine"] = sum(machine) - machine.idle - machine.iowait - machine.guest
        used["machine"] -= machine.guest_nice
        self._times.append(time.time())
        for name, seconds in used.items():
            self._seconds[name].append(seconds)
        return True


def cpu_seconds_of(pid: int) -> float:
    """CPU seconds (user and system) that a process has used so far."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


class Memory(NamedTuple):
    """Memory of a process in bytes: resident, anonymous (heap) part, and peak."""

    resident: int
    anonymous: int
    peak: int


def memory_of(pid: int) -> Memory:
    """From /proc/PID/status. Raises FileNotFoundError when the process has ended."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    kib = [int(fields[name].split()[0]) for name in ("VmRSS", "RssAnon", "VmHWM")]
    return Memory(*(each << 10 for each in kib))
