"""Process that gives a store ids by the calls of the worker's loop.

`python -m benchmarks.scale.fill PLAN` is a separate process, so that its memory can be limited and its CPU time
measured. It prints lines of JSON: `Progress` now and then, `Filled` at the end.
"""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np
import psutil
from pydantic import BaseModel

from benchmarks.harness.model import Model
from benchmarks.scale.ids import fill_numbers, packed_ids
from benchmarks.scale.result import Filled
from dedupe_crds.spec.store import Window as WindowSpec
from dedupe_crds.spec.worker import Tuning
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.values import encode_owners

_TUNING: Final = Tuning()
_NEVER: Final = timedelta(days=3650)
_PROGRESS_SECONDS: Final = 0.25
_REFILL_SECONDS: Final = 1.0


class FillPlan(Model):
    """`count` ids for the store in `database`, which has the numbers below `known`."""

    database: Path
    max_bytes: int
    known: int
    count: int


class Progress(Model):
    """The number of ids so far."""

    done: int


def bytes_of(directory: Path) -> int:
    """Return the size of a directory's files."""
    sizes = []
    for file in directory.iterdir():
        try:
            sizes.append(file.stat().st_size)
        except FileNotFoundError:  # RocksDB has just deleted it
            continue
    return sum(sizes)


def fill(plan: FillPlan, report: Callable[[Progress], None]) -> Filled:
    """Fill the store of a plan. A worker must have opened it before.

    The store keeps that worker's positions. Raises StreamError, and ValueError if the store does not know its ids.
    """
    bounds = Bounds(max_bytes=plan.max_bytes, max_age=_NEVER, generations=WindowSpec().generations)
    store = Store(plan.database, bounds, block_cache_bytes=_TUNING.block_cache_bytes)
    return _Filling(plan, store).run(report)


class _Filling:
    """A run. `_aside` are CPU seconds of other work than the store's.

    These are making the ids and measuring the directory.
    """

    def __init__(self, plan: FillPlan, store: Store) -> None:
        self._plan = plan
        self._store = store
        self._window = Window(store)
        if store.metadata is None:
            raise ValueError(f"{plan.database}: no worker has had this store yet")
        self._stamp = store.metadata
        self._rng = np.random.default_rng(plan.known)
        self._known = plan.known
        self._repeats = self._drops = self._peak_bytes = 0
        self._lookup = self._write = self._aside = self._longest_write = 0.0

    def run(self, report: Callable[[Progress], None]) -> Filled:
        """To its end."""
        self._age(int(time.time() * 1000))  # what is too much already is not this run's to pay for
        while self._store.refill(_REFILL_SECONDS):  # nor is what a crash has left to be read
            pass
        process = psutil.Process()
        began, cpu, written = (
            time.monotonic(),
            time.process_time(),
            process.io_counters().write_bytes,
        )
        transaction = min(_TUNING.max_transaction_records, self._store.bounds.largest_write_records)
        done, due = 0, began
        while done < self._plan.count:
            admitted = min(transaction, self._plan.count - done)
            self._admit(admitted)
            self._commit()
            done += admitted
            if time.monotonic() >= due:
                report(Progress(done=done))
                due = time.monotonic() + _PROGRESS_SECONDS
        self._store.flush()
        generations = self._store.generations()
        keys = sum(generation.keys for generation in generations)
        self._store.close()
        return Filled(
            ids=done,
            known=self._known,
            repeats=self._repeats,
            seconds=time.monotonic() - began,
            cpu_seconds=time.process_time() - cpu - self._aside,
            lookup_seconds=self._lookup,
            write_seconds=self._write,
            longest_write_seconds=self._longest_write,
            written=process.io_counters().write_bytes - written,
            bytes=bytes_of(self._plan.database),
            peak_bytes=self._peak_bytes,
            keys=keys,
            generations=len(generations),
            drops=self._drops,
        )

    def _admit(self, count: int) -> None:
        """Admit a transaction's ids, in batches as the loop reads them."""
        for start in range(0, count, _TUNING.max_batch_records):
            rows = min(_TUNING.max_batch_records, count - start)
            began = time.thread_time()
            numbers, new = fill_numbers(self._known, rows, self._rng)
            packed = packed_ids(numbers)
            owners = encode_owners(0, numbers.astype(np.uint64))
            made = time.thread_time()
            repeats = self._window.admit(packed, owners)
            self._lookup += time.thread_time() - made
            self._aside += made - began
            self._known += new
            self._repeats += len(repeats)
            if len(repeats) > rows - new or (len(repeats) < rows - new and not self._drops):
                raise ValueError(f"{len(repeats)} of {rows} ids were repeats, not {rows - new}")

    def _commit(self) -> None:
        began, cpu = time.perf_counter(), time.thread_time()
        now_ms = int(time.time() * 1000)
        self._window.commit(
            output_position=self._stamp.output_position,
            input_offset=self._stamp.input_offset,
            seen_ms=now_ms,
        )
        self._age(now_ms)
        written = time.thread_time()
        self._write += written - cpu
        self._longest_write = max(self._longest_write, time.perf_counter() - began)
        self._peak_bytes = max(self._peak_bytes, bytes_of(self._plan.database))
        self._aside += time.thread_time() - written

    def _age(self, now_ms: int) -> None:
        if self._store.age(now_ms):
            self._drops += 1


def _print(line: BaseModel) -> None:
    sys.stdout.write(line.model_dump_json() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _print(fill(FillPlan.model_validate_json(sys.argv[1]), _print))
