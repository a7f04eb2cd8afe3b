"""Sorted runs on disk, and the merging of them, range by range of ids, within a bound of memory.

A run is a .npy file of `rows.Rows`, sorted by id, each id once.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from dedupe_worker.bootstrap.rows import NO_ROWS, Rows, sort_unique

RANGE_ROWS: Final = 1_000_000  # merged at once: some 150 MB with all that is made of them

_SAMPLE_ROWS: Final = 256

Bound = tuple[int, int]  # both halves of an id; (0, 0) is before every id


def run_path(directory: Path, number: int) -> Path:
    """Where a run is, below its partition's directory."""
    return directory / f"run-{number:06d}.npy"


def write_run(path: Path, rows: Rows) -> None:
    """Sort and write, all or nothing."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.save(file, sort_unique(rows))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def open_runs(paths: Sequence[Path]) -> list[Rows]:
    """The runs as arrays that are read from disk where they are looked at."""
    return [np.load(path, mmap_mode="r") for path in paths]


def bounds_of_ranges(runs: Sequence[Rows], range_rows: int) -> list[Bound]:
    """Where each range begins, so that each holds about `range_rows` rows, and they hold all of them in order."""
    samples = np.concatenate([NO_ROWS[:2], *(run[:2, ::_SAMPLE_ROWS] for run in runs)], axis=1)
    samples = samples[:, np.lexsort(samples[::-1])]
    chosen = samples[:, :: max(1, range_rows // _SAMPLE_ROWS)][:, 1:]
    bounds = [(0, 0), *((int(upper), int(lower)) for upper, lower in chosen.T)]
    return list(dict.fromkeys(bounds))


def merged(runs: Sequence[Rows], bounds: Sequence[Bound], index: int) -> Rows:
    """One range of all runs, as one run would have it."""
    parts = []
    for run in runs:
        start = _place(run, bounds[index])
        end = _place(run, bounds[index + 1]) if index + 1 < len(bounds) else run.shape[1]
        parts.append(run[:, start:end])
    return sort_unique(np.concatenate([NO_ROWS, *parts], axis=1))


def merge(runs: Sequence[Rows], bounds: Sequence[Bound]) -> Iterator[Rows]:
    """All ranges, in order."""
    return (merged(runs, bounds, index) for index in range(len(bounds)))


def _place(run: Rows, bound: Bound) -> int:
    """How many ids of the run come before the bound."""
    upper, lower = np.uint64(bound[0]), np.uint64(bound[1])
    start, end = np.searchsorted(run[0], upper, "left"), np.searchsorted(run[0], upper, "right")
    return int(start + np.searchsorted(run[1, start:end], lower, "left"))
