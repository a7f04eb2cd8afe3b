"""Speed of tables of fixed size, and the share of ids that they retain.

Batches of ids go through the worker's window into the store, which writes to disk as in a worker. No broker is needed.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.model import Model
from benchmarks.harness.testbed import Testbed
from benchmarks.scale.ids import packed_ids
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.inverse_bloom.sizing import messages_for, retained, slot_bytes
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore
from dedupe_worker.values import OWNER, OWNER_BYTES

SIZES: Final = (1_000_000, 34_168_399)
"""Slots: of the measured retention, and those that keep 90 % of ids for 3.6 million further messages."""
RETAINS: Final = (0.9, 0.5, 0.1)

_SAMPLE: Final = 100_000
_BATCH: Final = 10_000
_BATCHES_A_COMMIT: Final = 5
_BOUNDS: Final = Bounds(max_bytes=8 << 30, max_age=timedelta(days=28), generations=5)


class Taken(Model):
    """Speed of a table with so many slots: ids per CPU second and per second.

    CPU time is that of this whole process.
    """

    slots: int
    per_cpu_second: list[float]
    per_second: list[float]

    @property
    def typical(self) -> float:
        """Ids per CPU second, the median."""
        return median(self.per_cpu_second)

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return self.slots * slot_bytes(OWNER_BYTES)


class Retained(Model):
    """The share of ids that is left after so many later ids."""

    later: int
    expected: float
    measured: float


class FixedTables(Model):
    """All measurements."""

    ids: int
    taken: list[Taken]
    slots: int
    retained: list[Retained]

    @property
    def largest_difference(self) -> float:
        """The largest difference between a measured share and the formula's."""
        return max(abs(each.measured - each.expected) for each in self.retained)


def measure_inverse_bloom(
    testbed: Testbed, *, messages: int, rounds: int, report: Callable[[str], None]
) -> FixedTables:
    """Measure `rounds` of `messages` ids after a warm-up, then the retained share."""
    taken = []
    for slots in SIZES:
        report(f"{slots:,} slots")
        taken.append(_take(testbed.scratch / f"table-{slots}", slots, messages, rounds))
    slots = SIZES[0]
    report(f"what {slots:,} slots retain")
    kept = _retain(testbed.scratch / "retained", slots)
    return FixedTables(ids=messages, taken=taken, slots=slots, retained=kept)


def _take(path: Path, slots: int, ids: int, rounds: int) -> Taken:
    store = InverseBloomStore(path, _BOUNDS, slots=slots, value_bytes=OWNER_BYTES)
    cpu, clock = [], []
    for number in range(rounds + 1):
        batch = np.arange(number * ids, (number + 1) * ids)
        began, began_cpu = time.perf_counter(), time.process_time()
        _admit(store, batch)
        if number:
            cpu.append(ids / (time.process_time() - began_cpu))
            clock.append(ids / (time.perf_counter() - began))
    store.close()
    return Taken(slots=slots, per_cpu_second=cpu, per_second=clock)


def _retain(path: Path, slots: int) -> list[Retained]:
    """Put ids, then others, and look now and then how many of the first are left."""
    store = InverseBloomStore(path, _BOUNDS, slots=slots, value_bytes=OWNER_BYTES)
    sample = np.arange(_SAMPLE)
    _admit(store, sample)
    found, done = [], _SAMPLE
    for share in RETAINS:
        until = max(done, messages_for(slots, share))
        _admit(store, np.arange(done, until))
        done = until
        expected = np.mean([retained(slots, done - 1 - number) for number in sample.tolist()])
        left = len(Window(store).find(packed_ids(sample)))
        found.append(Retained(later=done, expected=float(expected), measured=left / _SAMPLE))
    store.close()
    return found


def _admit(store: IdStore, numbers: NDArray[np.int64]) -> None:
    """Pass ids through a window, in transactions."""
    window = Window(store)
    for start in range(0, len(numbers), _BATCH):
        batch = numbers[start : start + _BATCH]
        window.admit(packed_ids(batch), np.zeros(len(batch), OWNER))
        end = start + len(batch)
        if end % (_BATCH * _BATCHES_A_COMMIT) == 0 or end == len(numbers):
            window.commit(output_position=end, input_offset=end, seen_ms=0)
            store.age(0)
