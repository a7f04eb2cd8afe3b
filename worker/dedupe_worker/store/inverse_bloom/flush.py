"""Write the tables of a store to disk, segment by segment.

`store` calls this between transactions.

Ids fall everywhere, so after some thousand of them every segment differs from its file, and writing them all costs the
size of the table. Therefore they are written once as many ids have come as an eighth of the slots, or after a quarter
of an hour (so that the output topic's retention does not overtake the position on disk), one segment at a time between
transactions, for at most a tenth of the time. So 8 slots are written for each id, and what a crash leaves to be read
again is about an eighth of the table's ids.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dedupe_crds.clock import Clock
from dedupe_worker.store.column_families import UNTRUSTED
from dedupe_worker.store.inverse_bloom.segments import (
    MANIFEST,
    MORE,
    FurtherRecord,
    StoreRecord,
    delete_others,
    load_further,
    load_manifest,
    save_further,
    save_manifest,
)
from dedupe_worker.store.inverse_bloom.table_state import TableState
from dedupe_worker.store.progress import Report, Step, no_report
from dedupe_worker.store.state_dir import make_directory, sync_to_disk

_WRITTEN_AFTER_SHARE: Final = 1 / 8
_WRITTEN_AFTER_SECONDS: Final = 900.0
_WRITING_SHARE: Final = 0.1
_SUPERSEDED_SHARE: Final = 1 / 16
_MOST_SUPERSEDED: Final = 16
"""The most unused segments on disk: some 200 MiB.

It is less if a sixteenth of the segments in use is less, but one at least; see capacity.py.
"""


class TableFiles:
    """The directory of a store's tables, oldest first.

    Raises StoreCorrupt, DiskFull or OSError from any method.

    `reach` is the output position before which all ids are from that were ever written.
    """

    def __init__(self, path: Path, clock: Clock, report: Report = no_report) -> None:
        self._path = path
        self._clock = clock
        self._report = report
        self.reach = 0
        self._serial = 0
        self._further: FurtherRecord = {}
        self._superseded: list[str] = []
        self._waiting: list[tuple[TableState, int]] = []
        self._changes = 0
        self._next_write = self._clock.monotonic()
        self._written_at = self._next_write

    def load(self) -> list[TableState]:
        """Load the tables; segments that no manifest names are deleted."""
        make_directory(self._path)
        record = load_manifest(self._path)
        tables: list[TableState] = []
        if record:
            self._serial, self.reach = record.serial, record.reach
            further = load_further(self._path)
            tables = [
                TableState.load(self._path, each, further, self._report) for each in record.tables
            ]
            self._further = {
                key: value for table in tables for key, value in table.further().items()
            }
        delete_others(self._path, record.files if record else ())
        (self._path / UNTRUSTED).unlink(missing_ok=True)  # everything was read
        return tables

    def count_changes(self, changes: int) -> None:
        """Count changed slots in memory."""
        self._changes += changes

    def retire(self, table: TableState) -> None:
        """Retire a table that is no longer in the store.

        Its files go once the manifest no longer names them.
        """
        self._waiting = [each for each in self._waiting if each[0] is not table]
        self._superseded += [each.file for each in table.files if each]

    def write_some(self, tables: Sequence[TableState]) -> None:
        """Write the next segment, if any is due."""
        now = self._clock.monotonic()
        if not self._waiting and self._is_due(tables, now):
            self._waiting = self._begin(tables)
        if not self._waiting or now < self._next_write:
            return
        self._write(*self._waiting.pop(), tables)
        if not self._waiting:
            self.write_manifest(tables)
        took = self._clock.monotonic() - now
        self._next_write = now + took / _WRITING_SHARE

    def write_all(self, tables: Sequence[TableState]) -> None:
        """Write all segments that differ from their files."""
        self._waiting.clear()
        due = self._begin(tables)
        for number, (table, segment) in enumerate(due):
            self._report(Step.WRITING_TABLE, number, len(due))
            self._write(table, segment, tables)
        self.write_manifest(tables)

    def write_manifest(self, tables: Sequence[TableState]) -> None:
        """Write the manifest of the segments on disk, and delete unused ones."""
        positions = [table.metadata.output_position for table in tables if table.metadata]
        if not positions:
            return
        self.reach = max(self.reach, *positions)
        further = {key: value for table in tables for key, value in table.further().items()}
        if self._further or further:
            save_further(self._path, self._further | further)
        save_manifest(self._path, self._record(tables))
        self._further = further
        for name in self._superseded:
            (self._path / name).unlink(missing_ok=True)
        self._superseded.clear()

    def copy(self, tables: Sequence[TableState], path: Path) -> None:
        """Have the same at `path`, by hard links where the file system has them.

        All was written before.
        """
        path.mkdir()
        files = self._record(tables).files
        for number, name in enumerate(files):
            self._report(Step.COPYING_CHECKPOINT, number, len(files))
            try:
                os.link(self._path / name, path / name)
            except OSError:
                self._copy(name, path)
        if (self._path / MORE).exists():
            self._copy(MORE, path)
        self._copy(MANIFEST, path)  # not linked: damage to one must not reach the other
        sync_to_disk(path)

    def _copy(self, name: str, path: Path) -> None:
        shutil.copy2(self._path / name, path / name)
        sync_to_disk(path / name)

    def _begin(self, tables: Sequence[TableState]) -> list[tuple[TableState, int]]:
        """Return the tables and segments that must be written now."""
        self._changes = 0
        self._written_at = self._clock.monotonic()
        return [(table, segment) for table in tables for segment in table.behind]

    def _is_due(self, tables: Sequence[TableState], now: float) -> bool:
        if not self._changes:
            return False
        most = tables[-1].table.slots * _WRITTEN_AFTER_SHARE
        return self._changes >= most or now - self._written_at >= _WRITTEN_AFTER_SECONDS

    def _write(self, table: TableState, segment: int, tables: Sequence[TableState]) -> None:
        self._serial += 1
        before = table.save(self._path, segment, self._serial)
        if before:
            self._superseded.append(before)
        segments = sum(len(each.files) for each in tables)
        if len(self._superseded) >= min(max(1, segments * _SUPERSEDED_SHARE), _MOST_SUPERSEDED):
            self.write_manifest(tables)

    def _record(self, tables: Sequence[TableState]) -> StoreRecord:
        return StoreRecord(
            serial=self._serial, reach=self.reach, tables=[table.record() for table in tables]
        )
