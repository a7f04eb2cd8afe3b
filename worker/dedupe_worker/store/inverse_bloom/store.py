"""The ids of one partition in a table of fixed size, as a worker's store.

The table is in memory. On disk it is a set of segments (segments.py), written at different times (flush.py), with
metadata that says up to where all of them are complete. Invariant: the output topic is the log from which the rest is
read again.

When the number of slots or the width of values changes, a new table is created, and the previous one is still read, as
long as its ids are not too old and fewer ids than it has slots have come since (previous and current, as in Tapjoy's).

A store is used from one thread only.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_worker.errors import NotComparable, store_errors
from dedupe_worker.store.ageing import Bounds, Generation
from dedupe_worker.store.api import FullyReconcilable
from dedupe_worker.store.bloom_filter import BloomFilter, Hashes
from dedupe_worker.store.described import DescribedStore
from dedupe_worker.store.inverse_bloom.flush import TableFiles
from dedupe_worker.store.inverse_bloom.retention import Mark
from dedupe_worker.store.inverse_bloom.table import ID, Table
from dedupe_worker.store.inverse_bloom.table_state import TableState
from dedupe_worker.store.metadata import (
    NO_RECORDS,
    LastRecords,
    StoreMetadata,
    ages,
    next_metadata,
)
from dedupe_worker.store.progress import Report, Step, no_report


class InverseBloomStore(DescribedStore):
    """An `IdStore`. A closed store can't be used again.

    `slots` of `value_bytes` each are what the current table has, or gets. Of `bounds` only the age counts. Raises
    StoreCorrupt, DiskFull or StoreFailed from any method.
    """

    def __init__(
        self,
        path: Path,
        bounds: Bounds,
        *,
        slots: int,
        value_bytes: int,
        clock: Clock = SYSTEM_CLOCK,
        report: Report = no_report,
    ) -> None:
        self.bounds = bounds
        self._prepared = BloomFilter()
        self._aged_ms = 0
        self._report = report
        self._files = TableFiles(path, clock, report)
        with store_errors("opening the store"):
            self._tables = self._files.load()
        self._input_topic = self.metadata.input_topic if self.metadata else ""
        newest = self._tables[-1].table if self._tables else None
        if newest is None or (newest.slots, newest.value_bytes) != (slots, value_bytes):
            self._begin(slots, value_bytes)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def metadata(self) -> StoreMetadata | None:
        """Return up to where the store is complete; None before the first write."""
        return next((t.metadata for t in reversed(self._tables) if t.metadata), None)

    @property
    def reach(self) -> int:
        """Return the end of the output records of the ids; may be after the metadata."""
        return max(self._files.reach, super().reach)

    def generations(self) -> list[Generation]:
        """Return the tables, oldest first."""
        return [table.describe() for table in self._tables]

    def window_seconds(self, now_ms: int) -> float:
        """Return the age at which half of the ids are lost; until then the oldest id's."""
        since = now_ms
        for table in reversed(self._tables):
            mark = table.history.horizon(table.puts)
            since = mark.seen_ms if mark else since
            if table.history.forgets(table.puts):
                break
        return max(0, now_ms - since) / 1000

    def suspects(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each hash whether its id may be in the store: False is certain."""
        found = self._prepared.may_contain(hashes)
        for table in self._tables:
            found |= table.table.may_know(hashes)
        return found

    def lookup(self, ids: Sequence[bytes], hashes: Hashes) -> dict[bytes, bytes]:
        """Return the values of the ids in the store, from the newest table of each."""
        known: dict[bytes, bytes] = {}
        packed = np.frombuffer(b"".join(ids), ID)
        for table in self._tables:
            found = table.table.lookup(packed, hashes)
            known.update(zip(packed[found.known].tolist(), found.values.tolist(), strict=True))
        return known

    def locate(self, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes, Generation]]:
        """Return the values of the ids in the store, each with its newest table."""
        located: dict[bytes, tuple[bytes, Generation]] = {}
        packed = np.frombuffer(b"".join(ids), ID)
        for table in self._tables:
            found, described = table.table.lookup(packed), table.describe()
            known = zip(packed[found.known].tolist(), found.values.tolist(), strict=True)
            located.update((id_, (value, described)) for id_, value in known)
        return located

    def refill(self, seconds: float) -> bool:  # noqa: ARG002 (the interface)
        """Return False: there is no filter to fill."""
        return False

    def fully_reconcilable(self) -> FullyReconcilable:
        """Refuse: see `NotComparable`."""
        raise NotComparable(
            "spec.store.type: InverseBloom forgets ids by chance. So a missing id does not prove that the store is "
            "wrong, and each id that a full reconcile adds replaces another one. To rebuild the store from the output "
            "topic, restore the partition from the output topic, or stop the worker and delete its state directory"
        )

    # -- writing ---------------------------------------------------------------------------------

    def begin_input(self, input_topic: str, *, unlabelled: str = "") -> None:
        """Set the input topic; overwrite owners of another. See `IdStore.begin_input`."""
        self._input_topic = input_topic
        latest = self.metadata
        if latest is None or (latest.input_topic or unlabelled) == input_topic:
            return
        for number, table in enumerate(self._tables):
            of = (Step.WRITING_TABLE, number, len(self._tables))
            table.forget_owners(partial(self._report, *of))
        self.flush()
        self._tables[-1].metadata = latest.of_new_input(input_topic)
        self.flush()

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
        aged_ms: int | None = None,
        last: LastRecords = NO_RECORDS,
        own_output: str = "",
    ) -> None:
        """Put ids with their values, and the store's new position. See `IdStore.write`."""
        newest = self._tables[-1]
        before, latest = newest.metadata, self.metadata
        aged_ms = seen_ms if aged_ms is None else aged_ms
        if ids:
            self._prepared = BloomFilter()
            newest.history.add(Mark(newest.puts, aged_ms, latest.newest_ms if latest else 0))
            table = newest.table
            values = np.frombuffer(b"".join(owners), f"V{table.value_bytes}")
            newest.touch(table.put(np.frombuffer(b"".join(ids), ID), values))
            newest.puts += len(ids)
            self._files.count_changes(len(ids))
        written = next_metadata(
            before,
            latest,
            output_position=output_position,
            input_offset=input_offset,
            added=len(ids),
            seen_ms=seen_ms,
            newest_ms=newest_ms,
            aged_ms=aged_ms,
            input_topic=self._input_topic,
            last=last,
            own_output=own_output,
            kept=self.kept_texts,
        )
        newest_ms = max(written.newest_ms, latest.newest_ms if latest else 0)
        newest.metadata = replace(written, keys=newest.puts, newest_ms=newest_ms)

    def mark_truncated(self) -> None:
        """Record that the window is shorter than configured: ids were lost."""
        newest = self._tables[-1]
        if newest.metadata:
            newest.metadata = replace(newest.metadata, truncated=True)

    def mark_forgotten(self, newest_ms: int) -> None:
        """Record that ids of records with timestamps up to `newest_ms` are lost."""
        newest = self._tables[-1]
        if newest.metadata:
            latest = max(newest_ms, newest.metadata.forgotten_ms)
            newest.metadata = replace(newest.metadata, forgotten_ms=latest)

    def forget(self, ids: Sequence[bytes]) -> int:
        """Remove ids from every table; return how many were in the store."""
        packed = np.unique(np.frombuffer(b"".join(ids), f"S{ID.itemsize}")).view(ID)
        forgotten = np.zeros(len(packed), np.bool_)
        for table in self._tables:
            forgotten |= table.table.lookup(packed).known
            table.touch(table.table.remove(packed))
        self._files.count_changes(int(forgotten.sum()))
        return int(forgotten.sum())

    def age(self, now_ms: int) -> int:
        """Drop tables whose time is over, record what was lost, and write what is due.

        Returns how many were dropped.
        """
        self._aged_ms = now_ms
        dropped = [table for table in self._tables[:-1] if self._is_over(table, now_ms)]
        for table in dropped:
            self._drop(table, now_ms)
        self._mark_half_lost(now_ms)
        with store_errors("writing the store"):
            if dropped:
                self._files.write_manifest(self._tables)
            self._files.write_some(self._tables)
        return len(dropped)

    def flush(self) -> None:
        """Write everything to disk, also the time by which ids age."""
        newest = self._tables[-1]
        if newest.metadata and self._aged_ms > newest.metadata.aged_ms:
            newest.metadata = replace(newest.metadata, aged_ms=self._aged_ms)
        with store_errors("flushing the store"):
            self._files.write_all(self._tables)

    def flush_all(self) -> None:
        """Write everything to disk: `flush` does so for all tables."""
        self.flush()

    def checkpoint(self, path: Path) -> None:
        """Write a consistent copy to `path`, with hard links if possible."""
        self.flush()
        with store_errors("writing a checkpoint"):
            self._files.copy(self._tables, path)

    def close(self) -> None:
        """Flush and free the memory."""
        try:
            self.flush()
        finally:
            self._tables.clear()

    # -- tables ----------------------------------------------------------------------------------

    def _begin(self, slots: int, value_bytes: int) -> None:
        """Create a table; ids are no longer put into those before it."""
        number = self._tables[-1].number + 1 if self._tables else 1
        begun = TableState(number, Table(slots, value_bytes))
        if self.metadata:
            begun.metadata = replace(self.metadata, keys=0)
        for table in [each for each in self._tables if not each.puts]:
            self._remove(table)
        self._tables.append(begun)

    def _is_over(self, table: TableState, now_ms: int) -> bool:
        later = self._tables[self._tables.index(table) + 1 :]
        replaced = sum(each.puts for each in later) >= table.table.slots
        return replaced or self._is_old(table.describe().aged_to_ms, now_ms)

    def _is_old(self, seen_ms: int, now_ms: int) -> bool:
        return now_ms - seen_ms >= self.bounds.max_age / timedelta(milliseconds=1)

    def _drop(self, table: TableState, now_ms: int) -> None:
        metadata = table.metadata
        if metadata and table.puts:
            self.mark_forgotten(metadata.newest_ms)
            if not self._is_old(ages(metadata)[1], now_ms):
                self.mark_truncated()
        self._remove(table)

    def _remove(self, table: TableState) -> None:
        self._tables.remove(table)
        self._files.retire(table)

    def _mark_half_lost(self, now_ms: int) -> None:
        """Record up to when half of the ids are lost, and if that is within the window."""
        newest = self._tables[-1]
        if newest.metadata is None or not newest.history.forgets(newest.puts):
            return
        mark = newest.history.horizon(newest.puts)
        self.mark_forgotten(mark.newest_ms if mark else newest.metadata.newest_ms)
        if mark is None or not self._is_old(mark.seen_ms, now_ms):
            self.mark_truncated()
