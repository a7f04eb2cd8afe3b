"""Sort ids that don't fit in memory: sorted runs on disk, merged when read.

The full reconcile and the bootstrap use it. An entry is an id with a position that tells repeats of the id apart: the
offset of its output record, or when it was seen in Unix milliseconds. In memory and in an `EntryFile` it is 24 bytes:
the id, then the position as 8 bytes, little-endian. A run is a .npy file of shape (3, n), unsigned 8-byte numbers: the
upper and the lower half of each id, and its position, sorted by id, each id once.

Invariant: everything sorted here is sorted by id as RocksDB sorts its keys: byte by byte, unsigned.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedupe_ids.extract import ID_BYTES
from dedupe_worker.errors import store_errors
from dedupe_worker.store.state_dir import fsync, sync_to_disk

# numpy compares fixed-length texts like memcmp. It strips zero bytes from their ends only when it makes Python
# objects of them; `id_bytes` avoids that.
ID: Final = np.dtype(f"S{ID_BYTES}")
ENTRY: Final = np.dtype([("id", ID), ("position", "<i8")])
_HALVES: Final = np.dtype([("upper", ">u8"), ("lower", ">u8"), ("position", "<i8")])
"""The same 24 bytes, with the id as two numbers.

Those are sorted in a quarter of the time.
"""

Ids = NDArray[np.bytes_]
Entries = NDArray[np.void]
Run = NDArray[np.uint64]
Bound = tuple[int, int]
"""Both halves of an id; (0, 0) is before every id."""

NO_ENTRIES: Final[Entries] = np.empty(0, ENTRY)
RANGE_ENTRIES: Final = 1_000_000
"""Entries of runs that are merged at once.

Some 150 MB with everything that is made of them.
"""

_SAMPLE_ENTRIES: Final = 256


def make_entries(packed: bytes, positions: NDArray[np.int64] | int = -1) -> Entries:
    """Return entries of joined ids in their order.

    `positions` has shape (n,), or is the same for all.
    """
    entries = np.empty(len(packed) // ID_BYTES, ENTRY)
    entries["id"] = np.frombuffer(packed, ID)
    entries["position"] = positions
    return entries


def id_bytes(ids: Ids) -> list[bytes]:
    """Return each id's 16 bytes."""
    whole: list[bytes] = np.ascontiguousarray(ids).view(f"V{ID_BYTES}").tolist()
    return whole


def sort_entries(entries: Entries) -> Entries:
    """Return the entries sorted, each id once, with the largest of its positions."""
    upper = entries.view(_HALVES)["upper"].astype(np.uint64)
    if (upper[1:] > upper[:-1]).all():
        return entries
    order = np.argsort(upper)
    entries, upper = entries[order], upper[order]
    same_upper = upper[1:] == upper[:-1]
    if not same_upper.any():
        return entries
    tied = np.zeros(len(entries), np.bool_)
    tied[1:] = same_upper
    tied[:-1] |= same_upper
    halves = entries[tied].view(_HALVES)
    order = np.lexsort((halves["position"], halves["lower"], halves["upper"]))
    entries[tied] = halves[order].view(ENTRY)
    lower = entries.view(_HALVES)["lower"]
    last = np.ones(len(entries), np.bool_)
    last[:-1] = ~same_upper | (lower[1:] != lower[:-1])
    return entries[last]


def find(ids: Ids, asked: Ids) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the row of each asked id in sorted `ids`, and whether it is there.

    Two arrays as long as `asked`.
    """
    if not len(ids):
        return np.zeros(len(asked), np.intp), np.zeros(len(asked), np.bool_)
    rows = np.minimum(np.searchsorted(ids, asked), len(ids) - 1)
    return rows, ids[rows] == asked


def side_by_side(sources: Sequence[Iterator[Entries]]) -> Iterator[list[Entries]]:
    """Read sorted sources together.

    Yield, range by range of ids, the entries of each source in that range.

    A source yields its entries in sorted pieces, in order, and each id once. At most one piece of each is in memory.
    """
    held = [NO_ENTRIES for _ in sources]
    ended = [False] * len(sources)
    while True:
        for number, source in enumerate(sources):
            while not len(held[number]) and not ended[number]:
                piece = next(source, None)
                ended[number] = piece is None
                if piece is not None:
                    held[number] = piece
        if not any(map(len, held)):
            return
        # The next piece of a source begins after the last entry of the present one.
        known_to = [each["id"][-1] for each, end in zip(held, ended, strict=True) if not end]
        bound = min(known_to, default=None)
        cuts = [
            len(each) if bound is None else int(np.searchsorted(each["id"], bound, "right"))
            for each in held
        ]
        yield [each[:cut] for each, cut in zip(held, cuts, strict=True)]
        held = [each[cut:] for each, cut in zip(held, cuts, strict=True)]


class EntryFile:
    """Entries on disk, in the order in which they were appended.

    Raises DiskFull or StoreFailed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0

    def append(self, entries: Entries) -> None:
        """Add entries at the end."""
        with store_errors(f"writing {self._path}"), self._path.open("ab") as file:
            file.write(entries.tobytes())
        self.count += len(entries)

    def pieces(self, largest: int) -> Iterator[Entries]:
        """Yield all entries, at most `largest` at a time."""
        for start in range(0, self.count, largest):
            yield self._read(start, min(largest, self.count - start))

    def _read(self, start: int, count: int) -> NDArray[Any]:
        with store_errors(f"reading {self._path}"):
            return np.fromfile(self._path, ENTRY, count=count, offset=start * ENTRY.itemsize)


# -- runs, which are merged by ranges and so can be continued at any of them ---------------------


def as_run(entries: Entries) -> Run:
    """Return sorted entries in the layout of a run; positions must not be negative."""
    halves = entries.view(_HALVES)
    return np.stack([halves[field].astype(np.uint64) for field in ("upper", "lower", "position")])


def write_run(path: Path, entries: Entries) -> None:
    """Sort entries and write them as a run, all or nothing."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.save(file, as_run(sort_entries(entries)))
        file.flush()
        fsync(file.fileno(), temporary)
    temporary.replace(path)
    sync_to_disk(path.parent)


def open_runs(paths: Sequence[Path]) -> list[Run]:
    """Return the runs as arrays that read from disk only what is used."""
    return [np.load(path, mmap_mode="r") for path in paths]


def bounds_of_ranges(runs: Sequence[Run], range_entries: int) -> list[Bound]:
    """Return where each range begins, so that each has about `range_entries`.

    Together the ranges hold all entries, in order.
    """
    samples = np.concatenate([run[:2, ::_SAMPLE_ENTRIES] for run in (as_run(NO_ENTRIES), *runs)], 1)
    samples = samples[:, np.lexsort(samples[::-1])]
    chosen = samples[:, :: max(1, range_entries // _SAMPLE_ENTRIES)][:, 1:]
    bounds = [(0, 0), *((int(upper), int(lower)) for upper, lower in chosen.T)]
    return list(dict.fromkeys(bounds))


def merged(runs: Sequence[Run], bounds: Sequence[Bound], index: int) -> Entries:
    """Return one range of all runs, sorted, each id once."""
    parts = [NO_ENTRIES]
    for run in runs:
        start = _place(run, bounds[index])
        end = _place(run, bounds[index + 1]) if index + 1 < len(bounds) else run.shape[1]
        part = np.empty(end - start, _HALVES)
        part["upper"], part["lower"], part["position"] = run[:, start:end]
        parts.append(part.view(ENTRY))
    return sort_entries(np.concatenate(parts))


def merge(runs: Sequence[Run], bounds: Sequence[Bound]) -> Iterator[Entries]:
    """Yield all ranges, in order."""
    return (merged(runs, bounds, index) for index in range(len(bounds)))


def _place(run: Run, bound: Bound) -> int:
    """Return how many ids of the run come before the bound."""
    upper, lower = np.uint64(bound[0]), np.uint64(bound[1])
    start, end = np.searchsorted(run[0], upper, "left"), np.searchsorted(run[0], upper, "right")
    return int(start + np.searchsorted(run[1, start:end], lower, "left"))
