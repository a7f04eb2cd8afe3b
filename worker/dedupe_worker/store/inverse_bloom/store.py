"""The remembered ids of one partition in a table of fixed size, as a worker's store.

The table is in memory. On disk (files.py) it is a set of segments, each of the time it was last written at (disk.py),
and stamps that say what all of them are complete up to: the output topic is the log from which the rest is read again.

When the number of slots or the width of values changes, a new table is begun, and the one before is still asked, as
long as its ids are not too old and not more than it holds have come since (previous and current, as Tapjoy has it).

A store is used from one thread only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dedupe_crds.spec.store import InverseBloom
from dedupe_worker.errors import NotComparable, store_errors
from dedupe_worker.store.ageing import Bounds, Generation
from dedupe_worker.store.bloom_filter import Hashes, Prefilter
from dedupe_worker.store.inverse_bloom.capacity import check_room
from dedupe_worker.store.inverse_bloom.flush import Disk
from dedupe_worker.store.inverse_bloom.retention import Mark
from dedupe_worker.store.inverse_bloom.sizing import slots_wanted
from dedupe_worker.store.inverse_bloom.table import ID, Table
from dedupe_worker.store.inverse_bloom.table_state import OpenTable
from dedupe_worker.store.metadata import Stamp


def open_table(
    path: Path, bounds: Bounds, wanted: InverseBloom, value_bytes: int
) -> "InverseBloomStore":
    """The store as a manifest wants it. Raises InvalidConfig if it is too large for memory or volume, and what
    InverseBloomStore raises."""
    slots = check_table(path, wanted, value_bytes)
    return InverseBloomStore(path, bounds, slots=slots, value_bytes=value_bytes)


def check_table(path: Path, wanted: InverseBloom, value_bytes: int) -> int:
    """The slots of a table as a manifest wants it. Raises InvalidConfig if it is too large for memory or volume."""
    slots = slots_wanted(wanted, value_bytes)
    with store_errors("opening the store"):
        path.mkdir(parents=True, exist_ok=True)
        check_room(path, slots=slots, value_bytes=value_bytes)
    return slots


class InverseBloomStore:
    """Open with `InverseBloomStore(...)`, end with `close()`; a closed store is of no further use.

    `slots` of `value_bytes` each are what the current table has, or gets. Of `bounds` only the age counts.
    Raises StoreCorrupt, DiskFull or StoreFailed from any method.
    """

    def __init__(self, path: Path, bounds: Bounds, *, slots: int, value_bytes: int) -> None:
        self.bounds = bounds
        self._prepared = Prefilter()
        self._disk = Disk(path)
        with store_errors("opening the store"):
            self._tables = self._disk.load()
        newest = self._tables[-1].table if self._tables else None
        if newest is None or (newest.slots, newest.value_bytes) != (slots, value_bytes):
            self._begin(slots, value_bytes)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def stamp(self) -> Stamp | None:
        """What the store is complete up to; None if nothing was ever written."""
        return next((t.stamp for t in reversed(self._tables) if t.stamp), None)

    @property
    def reach(self) -> int:
        """The output position before which all its ids are from: segments may be ahead of the stamp."""
        stamp = self.stamp
        return max(self._disk.reach, stamp.output_position if stamp else 0)

    @property
    def forgotten_ms(self) -> int:
        """The newest timestamp of what is more likely forgotten than not, Unix milliseconds; 0 if nothing is."""
        stamp = self.stamp
        return stamp.forgotten_ms if stamp else 0

    def generations(self) -> list[Generation]:
        """The tables, oldest first."""
        return [table.describe() for table in self._tables]

    def window_seconds(self, now_ms: int) -> float:
        """The age at which half of the ids are lost, or that of the oldest id while more than half of all are there."""
        since = now_ms
        for table in reversed(self._tables):
            mark = table.history.horizon(table.puts)
            since = mark.seen_ms if mark else since
            if table.history.forgets(table.puts):
                break
        return max(0, now_ms - since) / 1000

    def suspects(self, hashes: Hashes) -> NDArray[np.bool_]:
        """For each hash whether its id may be in the store: False is certain."""
        found = self._prepared.may_contain(hashes)
        for table in self._tables:
            found |= table.table.may_know(hashes)
        return found

    def lookup(self, ids: Sequence[bytes], hashes: Hashes) -> dict[bytes, bytes]:
        """The values of those ids that are remembered, from the newest table that has each."""
        known: dict[bytes, bytes] = {}
        packed = np.frombuffer(b"".join(ids), ID)
        for table in self._tables:
            found = table.table.lookup(packed, hashes)
            known.update(zip(packed[found.known].tolist(), found.values.tolist(), strict=True))
        return known

    def locate(self, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes, Generation]]:
        """The values of those ids that are remembered, each with the newest table that has it; for a few ids."""
        located: dict[bytes, tuple[bytes, Generation]] = {}
        packed = np.frombuffer(b"".join(ids), ID)
        for table in self._tables:
            found, described = table.table.lookup(packed), table.describe()
            known = zip(packed[found.known].tolist(), found.values.tolist(), strict=True)
            located.update((one, (value, described)) for one, value in known)
        return located

    def positions(self) -> list[tuple[str, int | None]]:
        """Refused, see `NotComparable`."""
        self._refuse_comparison()

    def ids(self, generation: str) -> Iterator[bytes]:  # noqa: ARG002 (the interface)
        """Refused, see `NotComparable`."""
        self._refuse_comparison()

    def refill(self, seconds: float) -> bool:  # noqa: ARG002 (the interface)
        """There is no filter to be filled."""
        return False

    # -- writing ---------------------------------------------------------------------------------

    def prepare(self, hashes: Hashes) -> None:
        """Let `suspects` find these ids, until others are written."""
        self._prepared.add(hashes)

    def write(
        self,
        ids: Sequence[bytes],
        owners: Sequence[bytes],
        *,
        output_position: int,
        input_offset: int,
        seen_ms: int,
        newest_ms: int | None = None,
    ) -> None:
        """Put ids with their values, and what the store is then complete up to. See `Store.write`."""
        newest = self._tables[-1]
        before, latest = newest.stamp, self.stamp
        if ids:
            self._prepared = Prefilter()
            newest.history.add(Mark(newest.puts, seen_ms, latest.newest_ms if latest else 0))
            table = newest.table
            values = np.frombuffer(b"".join(owners), f"V{table.value_bytes}")
            newest.touch(table.put(np.frombuffer(b"".join(ids), ID), values))
            newest.puts += len(ids)
            self._disk.note(len(ids))
        newest_ms = seen_ms if newest_ms is None else min(newest_ms, seen_ms)
        newest.stamp = Stamp(
            output_position=output_position,
            input_offset=input_offset,
            keys=newest.puts,
            first_seen_ms=before.first_seen_ms if before and before.keys else seen_ms,
            last_seen_ms=max(seen_ms, before.last_seen_ms if before else 0),
            truncated=bool(latest and latest.truncated),
            newest_ms=max(newest_ms, latest.newest_ms if latest else 0),
            forgotten_ms=self.forgotten_ms,
        )

    def mark_truncated(self) -> None:
        """Record that the window does not reach back to where it should: ids were lost or given up for size."""
        newest = self._tables[-1]
        if newest.stamp:
            newest.stamp = replace(newest.stamp, truncated=True)

    def mark_forgotten(self, newest_ms: int) -> None:
        """Record that ids of records with timestamps up to then are no longer remembered, or never were."""
        newest = self._tables[-1]
        if newest.stamp:
            latest = max(newest_ms, newest.stamp.forgotten_ms)
            newest.stamp = replace(newest.stamp, forgotten_ms=latest)

    def forget(self, ids: Sequence[bytes]) -> int:
        """Remove ids from every table; returns how many were remembered."""
        packed = np.unique(np.frombuffer(b"".join(ids), f"S{ID.itemsize}")).view(ID)
        forgotten = np.zeros(len(packed), np.bool_)
        for table in self._tables:
            forgotten |= table.table.lookup(packed).known
            table.touch(table.table.remove(packed))
        self._disk.note(int(forgotten.sum()))
        return int(forgotten.sum())

    def amend(
        self,
        generation: str,  # noqa: ARG002 (the interface)
        *,
        added: Sequence[bytes] = (),  # noqa: ARG002
        removed: Sequence[bytes] = (),  # noqa: ARG002
    ) -> None:
        """Refused, see `NotComparable`."""
        self._refuse_comparison()

    def age(self, now_ms: int) -> bool:
        """Drop tables whose time is over, note what was forgotten, and write what is due; True if any was dropped."""
        dropped = [table for table in self._tables[:-1] if self._is_over(table, now_ms)]
        for table in dropped:
            self._drop(table, now_ms)
        self._note_forgotten(now_ms)
        with store_errors("writing the store"):
            if dropped:
                self._disk.write_manifest(self._tables)
            self._disk.write_some(self._tables)
        return bool(dropped)

    def flush(self) -> None:
        """Bring everything to disk."""
        with store_errors("flushing the store"):
            self._disk.write_all(self._tables)

    def settle(self) -> None:
        """The same."""
        self.flush()

    def checkpoint(self, path: Path) -> None:
        """Write a consistent copy of the store to `path`, by hard links where the file system has them."""
        self.flush()
        with store_errors("writing a checkpoint"):
            self._disk.copy(self._tables, path)

    def close(self) -> None:
        """Flush and let go of the memory."""
        try:
            self.flush()
        finally:
            self._tables.clear()

    # -- tables ----------------------------------------------------------------------------------

    def _begin(self, slots: int, value_bytes: int) -> None:
        """Begin a table; those before it are no longer put to."""
        number = self._tables[-1].number + 1 if self._tables else 1
        begun = OpenTable(number, Table(slots, value_bytes))
        if self.stamp:
            begun.stamp = replace(self.stamp, keys=0)
        for table in [each for each in self._tables if not each.puts]:
            self._remove(table)
        self._tables.append(begun)

    def _is_over(self, table: OpenTable, now_ms: int) -> bool:
        later = self._tables[self._tables.index(table) + 1 :]
        replaced = sum(each.puts for each in later) >= table.table.slots
        return replaced or self._is_old(table.describe().last_seen_ms, now_ms)

    def _is_old(self, seen_ms: int, now_ms: int) -> bool:
        return now_ms - seen_ms >= self.bounds.max_age / timedelta(milliseconds=1)

    def _drop(self, table: OpenTable, now_ms: int) -> None:
        stamp = table.stamp
        if stamp and table.puts:
            self.mark_forgotten(stamp.newest_ms)
            if not self._is_old(stamp.last_seen_ms, now_ms):
                self.mark_truncated()
        self._remove(table)

    def _remove(self, table: OpenTable) -> None:
        self._tables.remove(table)
        self._disk.give_up(table)

    def _note_forgotten(self, now_ms: int) -> None:
        """Note what half of the ids are lost of, and whether it should still be remembered."""
        newest = self._tables[-1]
        if newest.stamp is None or not newest.history.forgets(newest.puts):
            return
        mark = newest.history.horizon(newest.puts)
        self.mark_forgotten(mark.newest_ms if mark else newest.stamp.newest_ms)
        if mark is None or not self._is_old(mark.seen_ms, now_ms):
            self.mark_truncated()

    def _refuse_comparison(self) -> NoReturn:
        raise NotComparable(
            "spec.store.type: InverseBloom forgets ids by chance, so that what it lacks says nothing, and each id that "
            "a comparison adds takes the place of another. To build it anew from the output topic, restore the "
            "partition from there, or stop the worker and delete its state directory"
        )
