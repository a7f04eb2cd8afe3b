"""Read many ids in several threads, so that they wait for the disk together.

`rocksdb.Store` uses it. The files of a large store do not fit in the page cache, and RocksDB reads one block after the
other: then a lookup mostly waits. It releases the GIL meanwhile. Without reads of the disk threads would only cost CPU
time, so it depends on the lookup before whether they are used.
"""

import resource
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import starmap
from typing import Final, NamedTuple

Values = list[bytes | None]
ReadValues = Callable[[list[bytes]], Values]

_THREADS: Final = 16
_PIECE_IDS: Final = 16  # a thread costs as much CPU time as a few
_SECTORS_PER_ID: Final = 1  # from here on threads are used: every eighth id had a page read


class _Found(NamedTuple):
    """The values of some ids, and the sectors that were read from the disk for them."""

    ids: list[bytes]
    values: Values
    sectors: int


class ReadThreads:
    """Threads that start when a lookup has read from the disk, and end at `close`."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS - 1, thread_name_prefix="lookup")
        self._disk_is_read = False

    def read(self, asked: Iterable[tuple[ReadValues, list[bytes]]]) -> dict[bytes, bytes]:
        """Return the values that are found; of an id's values that of the last read.

        Raises what a read raises, after all have ended.
        """
        pieces = [(read, ids) for read, ids in asked if ids]
        if not pieces:
            return {}
        found = self._read_together(pieces) if self._disk_is_read else [*starmap(_read, pieces)]
        count = sum(len(each.ids) for each in found)
        if count >= _PIECE_IDS:
            sectors = sum(each.sectors for each in found)
            self._disk_is_read = sectors >= count * _SECTORS_PER_ID
        values: dict[bytes, bytes] = {}
        for each in found:
            values.update((i, v) for i, v in zip(each.ids, each.values, strict=True) if v)
        return values

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _read_together(self, pieces: list[tuple[ReadValues, list[bytes]]]) -> list[_Found]:
        *others, own = _split(pieces)
        tasks = [self._pool.submit(_read, *piece) for piece in others]
        try:
            found = _read(*own)
        finally:
            wait(tasks)
        return [*(task.result() for task in tasks), found]


def _read(read: ReadValues, ids: list[bytes]) -> _Found:
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
    values = read(ids)
    return _Found(ids, values, resource.getrusage(resource.RUSAGE_THREAD).ru_inblock - before)


def _split(
    pieces: list[tuple[ReadValues, list[bytes]]],
) -> Iterator[tuple[ReadValues, list[bytes]]]:
    """Split the ids of each read, so that all threads have about as many to do."""
    share = -(-sum(len(ids) for _, ids in pieces) // _THREADS)
    size = max(share, _PIECE_IDS)
    for read, ids in pieces:
        for at in range(0, len(ids), size):
            yield read, ids[at : at + size]
