"""When the tables of a store are written to disk, and what counts there.

Ids fall everywhere, so after some thousand of them every segment differs from its file, and writing them all costs the
size of the table. Therefore they are written once as many ids have come as an eighth of the slots, or after a quarter
of an hour (so that the output topic's retention does not overtake the stamp), one segment at a time between
transactions, for at most a tenth of the time. So 8 slots are written for each id, and what a crash leaves to be read
again is about an eighth of the table's ids.
"""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dedupe_worker.store.inverse_bloom.segments import (
    MANIFEST,
    StoreRecord,
    delete_others,
    load_manifest,
    save_manifest,
)
from dedupe_worker.store.inverse_bloom.table_state import OpenTable
from dedupe_worker.store.rocksdb import UNTRUSTED
from dedupe_worker.store.state_dir import sync_to_disk

_WRITTEN_AFTER_SHARE: Final = 1 / 8
_WRITTEN_AFTER_SECONDS: Final = 900.0
_WRITING_SHARE: Final = 0.1
_SUPERSEDED_SHARE: Final = 1 / 16
_MOST_SUPERSEDED: Final = 16
"""Segments on disk beside those that count: a sixteenth of them and some 200 MiB at most, but one; see room.py."""


class Disk:
    """The directory of a store's tables, oldest first. Raises StoreCorrupt, DiskFull or OSError from any method.

    `reach` is the output position before which all ids are from that were ever written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reach = 0
        self._serial = 0
        self._superseded: list[str] = []
        self._waiting: list[tuple[OpenTable, int]] = []
        self._changes = 0
        self._next_write = time.monotonic()
        self._written_at = self._next_write

    def load(self) -> list[OpenTable]:
        """The tables that are there; what no manifest names is deleted."""
        self._path.mkdir(parents=True, exist_ok=True)
        record = load_manifest(self._path)
        tables: list[OpenTable] = []
        if record:
            self._serial, self.reach = record.serial, record.reach
            tables = [OpenTable.load(self._path, each) for each in record.tables]
        delete_others(self._path, record.files if record else ())
        (self._path / UNTRUSTED).unlink(missing_ok=True)  # everything was read
        return tables

    def note(self, changes: int) -> None:
        """So many slots were changed in memory."""
        self._changes += changes

    def give_up(self, table: OpenTable) -> None:
        """A table is no longer among the store's: its files go once the manifest no longer names them."""
        self._waiting = [each for each in self._waiting if each[0] is not table]
        self._superseded += [each.file for each in table.files if each]

    def write_some(self, tables: Sequence[OpenTable]) -> None:
        """Write the next segment, if any is due."""
        now = time.monotonic()
        if not self._waiting and self._is_due(tables, now):
            self._waiting = self._begin(tables)
        if not self._waiting or now < self._next_write:
            return
        self._write(*self._waiting.pop(), tables)
        if not self._waiting:
            self.write_manifest(tables)
        took = time.monotonic() - now
        self._next_write = now + took / _WRITING_SHARE

    def write_all(self, tables: Sequence[OpenTable]) -> None:
        """Have the files be as the tables are."""
        self._waiting.clear()
        for table, segment in self._begin(tables):
            self._write(table, segment, tables)
        self.write_manifest(tables)

    def write_manifest(self, tables: Sequence[OpenTable]) -> None:
        """Have what is on disk count, and delete what no longer does."""
        stamps = [table.stamp.output_position for table in tables if table.stamp]
        if not stamps:
            return
        self.reach = max(self.reach, *stamps)
        save_manifest(self._path, self._record(tables))
        for name in self._superseded:
            (self._path / name).unlink(missing_ok=True)
        self._superseded.clear()

    def copy(self, tables: Sequence[OpenTable], path: Path) -> None:
        """Have the same at `path`, by hard links where the file system has them; all was written before."""
        path.mkdir()
        for name in self._record(tables).files:
            try:
                os.link(self._path / name, path / name)
            except OSError:
                self._copy(name, path)
        self._copy(MANIFEST, path)  # what damages one of them leaves the other
        sync_to_disk(path)

    def _copy(self, name: str, path: Path) -> None:
        shutil.copy2(self._path / name, path / name)
        sync_to_disk(path / name)

    def _begin(self, tables: Sequence[OpenTable]) -> list[tuple[OpenTable, int]]:
        """What is to be written by now."""
        self._changes = 0
        self._written_at = time.monotonic()
        return [(table, segment) for table in tables for segment in table.behind]

    def _is_due(self, tables: Sequence[OpenTable], now: float) -> bool:
        if not self._changes:
            return False
        most = tables[-1].table.slots * _WRITTEN_AFTER_SHARE
        return self._changes >= most or now - self._written_at >= _WRITTEN_AFTER_SECONDS

    def _write(self, table: OpenTable, segment: int, tables: Sequence[OpenTable]) -> None:
        self._serial += 1
        before = table.save(self._path, segment, self._serial)
        if before:
            self._superseded.append(before)
        segments = sum(len(each.files) for each in tables)
        if len(self._superseded) >= min(max(1, segments * _SUPERSEDED_SHARE), _MOST_SUPERSEDED):
            self.write_manifest(tables)

    def _record(self, tables: Sequence[OpenTable]) -> StoreRecord:
        return StoreRecord(
            serial=self._serial, reach=self.reach, tables=[table.record() for table in tables]
        )
