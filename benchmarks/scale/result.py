"""Results of the scale benchmark."""

from typing import Final

import numpy as np

from benchmarks.harness.measure import Speed
from benchmarks.harness.model import Model

ENTRY_BYTES: Final = 24
"""Of an id with its owner."""


class Filled(Model):
    """Ids given to a store by the calls of the worker's loop, in a separate process.

    `known` is the number of different ids it has been given by then, in this and in earlier fills. CPU seconds:
    `cpu_seconds` of the whole process, RocksDB's threads included, without making the ids; `lookup_seconds` and
    `write_seconds` of the calling thread. Bytes: `written` by the process, `peak_bytes` the largest size of the store's
    directory, `bytes` its size at the end. `drops` is how often ids aged out.
    """

    ids: int
    known: int
    repeats: int
    seconds: float
    cpu_seconds: float
    lookup_seconds: float
    write_seconds: float
    longest_write_seconds: float
    written: int
    bytes: int
    peak_bytes: int
    keys: int
    generations: int
    drops: int

    @property
    def cpu_micros(self) -> float:
        """All CPU time an id, in microseconds."""
        return self.cpu_seconds / self.ids * 1e6

    @property
    def lookup_micros(self) -> float:
        """Of the calling thread, looking an id up, in microseconds."""
        return self.lookup_seconds / self.ids * 1e6

    @property
    def write_micros(self) -> float:
        """Of the calling thread, writing an id, in microseconds."""
        return self.write_seconds / self.ids * 1e6

    @property
    def write_amplification(self) -> float:
        """Bytes written for each byte of id and owner."""
        return self.written / (self.ids * ENTRY_BYTES)


class Start(Model):
    """A start of a worker: seconds until it catches up, and until it is ready.

    Both are from the start of its process.
    """

    reconciling_seconds: float
    ready_seconds: float
    cpu_seconds: float
    reason: str
    records: int
    reconcile_seconds: float

    @property
    def per_second(self) -> float:
        """Records a second of the reconcile."""
        return self.records / self.reconcile_seconds if self.reconcile_seconds else 0.0


class Run(Speed):
    """A worker on messages that waited for it, in its steady state.

    `stages` are elapsed microseconds per message. Memory is in bytes: of the worker, and of its control group with
    the pages of files (0: not limited).
    """

    stages: dict[str, float]
    resident: int
    anonymous: int
    peak: int
    group_peak: int


class Rung(Model):
    """A size of the store; `keys` are those when the worker started.

    `filled` is the fill since the step before; `start` is on the store after the fill, `restart` after a SIGKILL at
    the end of the run, `tail` on the store as it was before the run, so that the worker reads all of its messages
    again.
    """

    keys: int
    filled: Filled
    start: Start
    run: Run
    restart: Start
    tail: Start

    @property
    def bytes_per_id(self) -> float:
        """Of the store's directory, before the worker began."""
        return self.filled.bytes / self.filled.keys


class Ageing(Model):
    """More ids for a window that is full: `max_bytes` is its limit.

    `unaged` is the cost of the last ids before, which aged nothing.
    """

    max_bytes: int
    unaged: Filled
    aged: Filled

    @property
    def cost(self) -> float:
        """The additional cost as a share; negative if it costs less."""
        return self.aged.cpu_micros / self.unaged.cpu_micros - 1


class Scale(Model):
    """All results so far. `limit_bytes` is None without a memory limit."""

    limit_bytes: int | None
    messages: int
    rungs: list[Rung]
    ageing: Ageing | None = None
    rebuild: Start | None = None

    @property
    def smallest(self) -> Rung:
        """The first."""
        return self.rungs[0]

    @property
    def largest(self) -> Rung:
        """The last."""
        return self.rungs[-1]

    @property
    def share(self) -> float:
        """Messages a CPU second of the last rung, as a share of the first's."""
        return self.largest.run.per_cpu_second / self.smallest.run.per_cpu_second

    @property
    def peak(self) -> int:
        """The most memory that a worker took, in bytes."""
        return max(rung.run.peak for rung in self.rungs)

    @property
    def longest_start(self) -> float:
        """The most seconds from the start of a process until it catches up."""
        return max(
            start.reconciling_seconds
            for rung in self.rungs
            for start in (rung.start, rung.restart, rung.tail)
        )

    @property
    def write_amplification(self) -> float:
        """Over all fills."""
        fills = [rung.filled for rung in self.rungs if rung.filled.ids]
        return sum(f.written for f in fills) / (sum(f.ids for f in fills) * ENTRY_BYTES)

    def memory_line(self) -> tuple[float, float]:
        """Return anonymous memory as a line: bytes without ids, and bytes per id.

        Least squares over all steps; with a single step all of it counts as the first.
        """
        if len(self.rungs) == 1:
            return float(self.largest.run.anonymous), 0.0
        slope, base = np.polyfit(
            [rung.keys for rung in self.rungs], [rung.run.anonymous for rung in self.rungs], 1
        )
        return float(base), float(slope)
