"""Sorted ids on disk and side by side: how sets that don't fit in memory are compared.

An entry is 24 bytes: an id and the offset of the output record that carried it. Whatever is sorted here is sorted by
id, as RocksDB sorts its keys: byte by byte, unsigned.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedupe_ids.extract import ID_BYTES
from dedupe_worker.errors import store_errors

# numpy compares fixed-length texts like memcmp. It strips zero bytes from their ends only when it makes Python
# objects of them, which `id_bytes` therefore does in another way.
ID: Final = np.dtype(f"S{ID_BYTES}")
ENTRY: Final = np.dtype([("id", ID), ("position", "<i8")])

Ids = NDArray[np.bytes_]
Entries = NDArray[np.void]


def make_entries(packed: bytes, positions: NDArray[np.int64] | int = -1) -> Entries:
    """Entries of ids (16 bytes each, joined) in their order; `positions` has shape (n,), or is the same for all."""
    entries = np.empty(len(packed) // ID_BYTES, ENTRY)
    entries["id"] = np.frombuffer(packed, ID)
    entries["position"] = positions
    return entries


def id_bytes(ids: Ids) -> list[bytes]:
    """Each id's 16 bytes."""
    whole: list[bytes] = np.ascontiguousarray(ids).view(f"V{ID_BYTES}").tolist()
    return whole


def sort_entries(entries: Entries) -> Entries:
    """Sorted, each id once, with the largest of its positions."""
    if not len(entries):
        return entries
    entries = entries[np.argsort(entries["id"])]
    ids = entries["id"]
    first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    if len(first) == len(entries):
        return entries
    unique = entries[first]
    unique["position"] = np.maximum.reduceat(entries["position"], first)
    return unique


def find(ids: Ids, asked: Ids) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where in sorted `ids` each asked one stands, and whether it does: two arrays of the length of `asked`."""
    if not len(ids):
        return np.zeros(len(asked), np.intp), np.zeros(len(asked), np.bool_)
    rows = np.minimum(np.searchsorted(ids, asked), len(ids) - 1)
    return rows, ids[rows] == asked


def side_by_side(sources: Sequence[Iterator[Entries]]) -> Iterator[list[Entries]]:
    """Walk sorted sources together: for one range of ids after the other, what each has in that range.

    A source yields its entries in sorted pieces, in order, and each id once; no more than one piece of each is held.
    """
    held = [np.empty(0, ENTRY) for _ in sources]
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
        # What comes next in a source is beyond the last of what is held of it.
        known_to = [each["id"][-1] for each, end in zip(held, ended, strict=True) if not end]
        bound = min(known_to, default=None)
        cuts = [
            len(each) if bound is None else int(np.searchsorted(each["id"], bound, "right"))
            for each in held
        ]
        yield [each[:cut] for each, cut in zip(held, cuts, strict=True)]
        held = [each[cut:] for each, cut in zip(held, cuts, strict=True)]


class EntryFile:
    """Entries on disk, in the order in which they were appended. Raises DiskFull or StoreFailed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0

    def append(self, entries: Entries) -> None:
        """Add entries at the end."""
        with store_errors(f"writing {self._path}"), self._path.open("ab") as file:
            file.write(entries.tobytes())
        self.count += len(entries)

    def pieces(self, largest: int) -> Iterator[Entries]:
        """All entries, at most `largest` at a time."""
        for start in range(0, self.count, largest):
            yield self._read(start, min(largest, self.count - start))

    def _read(self, start: int, count: int) -> NDArray[Any]:
        with store_errors(f"reading {self._path}"):
            return np.fromfile(self._path, ENTRY, count=count, offset=start * ENTRY.itemsize)
