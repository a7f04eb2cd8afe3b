"""A table with what is known of it, and which of its segments on disk are behind it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from dedupe_worker.store.ageing import Generation
from dedupe_worker.store.inverse_bloom.retention import History, Mark
from dedupe_worker.store.inverse_bloom.segments import (
    SegmentRecord,
    TableRecord,
    load_segment,
    save_segment,
    segment_of,
    segments_of,
)
from dedupe_worker.store.inverse_bloom.sizing import lost
from dedupe_worker.store.inverse_bloom.table import Slots, Table
from dedupe_worker.store.metadata import Stamp, decode_stamp, encode_stamp

_NOTHING: Final = -1
"""The output position of what was never complete."""


class OpenTable:
    """Table `number`. `stamp` is None until something was written; `puts` counts the ids put into it."""

    def __init__(self, number: int, table: Table, marks: Sequence[Mark] = ()) -> None:
        self.number = number
        self.table = table
        self.stamp: Stamp | None = None
        self.puts = 0
        self.history = History(table.slots, marks)
        segments = segments_of(table.slots)
        self.files: list[SegmentRecord | None] = [None] * segments
        self._behind = np.zeros(segments, np.bool_)
        # Of those that are behind, the output position up to which they are complete, and when it was reached.
        self._complete: NDArray[np.int64] = np.zeros((segments, 2), np.int64)

    @classmethod
    def load(cls, directory: Path, record: TableRecord) -> Self:
        """From disk. Raises StoreCorrupt or OSError."""
        table = Table(record.slots, record.value_bytes)
        opened = cls(record.number, table, record.marks)
        opened.puts = record.puts
        opened.stamp = decode_stamp(bytes.fromhex(record.stamp)) if record.stamp else None
        opened.files = list(record.segments)
        for segment, file in enumerate(record.segments):
            if file:
                load_segment(directory, table, file, number=record.number, segment=segment)
        return opened

    def record(self) -> TableRecord:
        """What the manifest says of it: its segments on disk, and what all of them are complete up to.

        A segment that is behind is complete up to what came before its first change since it was written.
        """
        stamp = self.stamp
        if stamp and self._behind.any():
            position, seen_ms = self._complete[self._behind].min(axis=0).tolist()
            stamp = replace(stamp, output_position=position, last_seen_ms=seen_ms)
        return TableRecord(
            number=self.number,
            slots=self.table.slots,
            value_bytes=self.table.value_bytes,
            puts=self.puts,
            stamp=encode_stamp(stamp).hex() if stamp and stamp.output_position >= 0 else None,
            marks=self.history.marks,
            segments=self.files,
        )

    def describe(self) -> Generation:
        """What users are told of it: `keys` as the formula has it, which is right to a thousandth."""
        stamp = self.stamp
        return Generation(
            name=f"t{self.number:08d}",
            keys=round(self.table.slots * lost(self.table.slots, self.puts)),
            size_bytes=self.table.nbytes,
            first_seen_ms=stamp.first_seen_ms if stamp and self.puts else 0,
            last_seen_ms=stamp.last_seen_ms if stamp and self.puts else 0,
        )

    # -- segments --------------------------------------------------------------------------------

    @property
    def behind(self) -> list[int]:
        """The segments that are not on disk as they are in memory."""
        found: list[int] = np.flatnonzero(self._behind).tolist()
        return found

    def touch(self, slots: Slots) -> None:
        """These slots are about to change, or have; what was written up to `stamp` is in their segments on disk."""
        touched = np.zeros_like(self._behind)
        touched[segment_of(slots)] = True
        stamp = self.stamp
        self._complete[touched & ~self._behind] = (
            (stamp.output_position, stamp.last_seen_ms) if stamp else (_NOTHING, 0)
        )
        self._behind |= touched

    def save(self, directory: Path, segment: int, serial: int) -> str | None:
        """Write one segment; returns the file that it takes the place of. Raises OSError."""
        before = self.files[segment]
        self.files[segment] = save_segment(
            directory, self.table, number=self.number, segment=segment, serial=serial
        )
        self._behind[segment] = False
        return before.file if before else None
