"""Whether a table of fixed size ahead of RocksDB pays: near repeats are found in it, and never asked of RocksDB.

No broker takes part: batches of ids go through the worker's window, over a store that holds many already, once with the
table ahead of it and once without. What is told is the CPU time of the thread that does so; RocksDB's own threads have
the same to do in both cases, since the table spares it no writes.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.scale.ids import packed_ids
from benchmarks.tables import Table as ShownTable
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.bloom_filter import Hashes
from dedupe_worker.store.inverse_bloom.table import ID, Table
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.values import OWNER

RATES: Final = (0.0, 0.006, 0.05, 0.3)
"""Shares of the messages that repeat a near one: none, Segment's, that of traffic with retries, a storm of them."""

SLOTS: Final = 4_000_000
NEAR_IDS: Final = 200_000
"""A repeat is of one of so many ids before it, of which the table holds 95 % and more."""

_BATCH: Final = 10_000
_BATCHES_A_COMMIT: Final = 5
BOUNDS: Final = Bounds(max_bytes=8 << 30, max_age=timedelta(days=28), generations=5)
_CACHE_BYTES: Final = 64 << 20
_OWNER_BYTES: Final = 8


class FrontedStore(Store):
    """A store with the table ahead of it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 # as a store's
        super().__init__(*arguments, **options)
        self.front = Table(SLOTS, _OWNER_BYTES)

    def lookup(self, ids: Sequence[bytes], hashes: Hashes) -> dict[bytes, bytes]:
        """First in the table, and what it does not know in RocksDB."""
        packed = np.frombuffer(b"".join(ids), ID)
        found = self.front.lookup(packed, hashes)
        owners = dict(zip(packed[found.known].tolist(), found.values.tolist(), strict=True))
        rest = np.flatnonzero(~found.known)
        if len(rest):
            owners |= super().lookup([ids[row] for row in rest.tolist()], hashes[rest])
        return owners

    def write(self, ids: Sequence[bytes], owners: Sequence[bytes], **stamp: Any) -> None:  # noqa: ANN401 # as a store's
        """Into both."""
        super().write(ids, owners, **stamp)
        if ids:
            packed = np.frombuffer(b"".join(ids), ID)
            self.front.put(packed, np.frombuffer(b"".join(owners), OWNER))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRun:
    """One rate: CPU microseconds an id, the median of all rounds, and the repeats that the window did not find (0)."""

    rate: float
    without: float
    with_front: float
    missed: int


def measure_front(
    *, known: int, messages: int, rounds: int, directory: Path, tell: Callable[[str], None]
) -> list[FrontRun]:
    """For each rate, `messages` messages over stores of `known` ids and more, `rounds` times, by turns with the table
    and without. Both stores get the same messages."""
    rng = np.random.default_rng(1)
    with ExitStack() as scratch:
        stores = []
        for kind in (Store, FrontedStore):
            tell(f"filling {kind.__name__} with {known:,} ids")
            path = Path(
                scratch.enter_context(tempfile.TemporaryDirectory(dir=directory, prefix="front-"))
            )
            stores.append(kind(path, BOUNDS, block_cache_bytes=_CACHE_BYTES))
            scratch.callback(stores[-1].close)
            admit_all(stores[-1], np.arange(known))
        runs = []
        for rate in RATES:
            seconds: list[list[float]] = [[], []]
            missed = 0
            for number in range(1, rounds + 1):
                tell(f"{rate:.1%} near repeats, round {number} of {rounds}")
                is_repeat = rng.random(messages) < rate
                numbers = known - 1 + np.cumsum(~is_repeat)
                known = int(numbers[-1]) + 1
                repeats = int(is_repeat.sum())
                numbers[is_repeat] -= rng.integers(0, NEAR_IDS, repeats)
                for store, found in zip(stores, seconds, strict=True):
                    began = time.thread_time()
                    missed += repeats - admit_all(store, numbers)
                    found.append((time.thread_time() - began) / messages * 1e6)
            without, with_front = map(median, seconds)
            runs.append(FrontRun(rate=rate, without=without, with_front=with_front, missed=missed))
    return runs


def front_table(runs: Sequence[FrontRun]) -> ShownTable:
    """The result as a table."""
    rows = [
        [
            f"{run.rate:.1%}",
            f"{run.without:.2f}",
            f"{run.with_front:.2f}",
            f"{run.with_front / run.without - 1:+.0%}",
            f"{run.missed:,}",
        ]
        for run in runs
    ]
    columns = ("near repeats", "RocksDB alone", "with the table", "difference", "missed")
    return ShownTable("The window's part of a message, CPU us of its thread", columns, rows)


def admit_all(store: IdStore, numbers: NDArray[np.int64]) -> int:
    """Pass ids through a window, in transactions; returns how many were repeats."""
    window, repeats = Window(store), 0
    for start in range(0, len(numbers), _BATCH):
        batch = numbers[start : start + _BATCH]
        repeats += len(window.admit(packed_ids(batch), np.zeros(len(batch), OWNER)))
        end = start + len(batch)
        if end % (_BATCH * _BATCHES_A_COMMIT) == 0 or end == len(numbers):
            window.commit(output_position=end, input_offset=end, seen_ms=0)
            store.age(0)
    return repeats
