"""A table with its metadata, and the segments whose files are out of date.

`store` holds one for each table; `flush` writes its segments.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from dedupe_worker.store.ageing import Generation
from dedupe_worker.store.inverse_bloom.retention import Mark, Retention
from dedupe_worker.store.inverse_bloom.segments import (
    SEGMENT_SLOTS,
    FurtherRecord,
    SegmentRecord,
    TableRecord,
    further_key,
    load_segment,
    save_segment,
    segment_of,
    segments_of,
)
from dedupe_worker.store.inverse_bloom.sizing import lost
from dedupe_worker.store.inverse_bloom.table import Slots, Table
from dedupe_worker.store.metadata import (
    StoreMetadata,
    decode_metadata,
    encode_metadata,
    further_fields,
    with_further,
)
from dedupe_worker.store.progress import Report, Step

_NOTHING: Final = -1
"""The output position of a segment that was never complete."""


class TableState:
    """Table `number`. `metadata` is None until something was written.

    `puts` counts the ids put into it.
    """

    def __init__(self, number: int, table: Table, marks: Sequence[Mark] = ()) -> None:
        self.number = number
        self.table = table
        self.metadata: StoreMetadata | None = None
        self.puts = 0
        self.history = Retention(table.slots, marks)
        segments = segments_of(table.slots)
        self.files: list[SegmentRecord | None] = [None] * segments
        self._behind = np.zeros(segments, np.bool_)
        # Of those that are behind, the output position up to which they are complete, and when it was reached.
        self._complete: NDArray[np.int64] = np.zeros((segments, 2), np.int64)

    @classmethod
    def load(
        cls, directory: Path, record: TableRecord, further: FurtherRecord, report: Report
    ) -> Self:
        """Load a table from disk. Raises StoreCorrupt or OSError."""
        table = Table(record.slots, record.value_bytes)
        opened = cls(record.number, table, record.marks)
        opened.puts = record.puts
        if record.stamp:
            metadata = decode_metadata(bytes.fromhex(record.stamp))
            opened.metadata = with_further(metadata, further.get(further_key(record)))
        opened.files = list(record.segments)
        for segment, file in enumerate(record.segments):
            report(Step.LOADING_TABLE, segment, len(record.segments))
            if file:
                load_segment(directory, table, file, number=record.number, segment=segment)
        return opened

    def record(self) -> TableRecord:
        """Return the manifest's record: the segments on disk and their position.

        A segment that is behind is complete up to what came before its first change since it was written.
        """
        metadata = self.metadata
        if metadata and self._behind.any():
            position, seen_ms = self._complete[self._behind].min(axis=0).tolist()
            metadata = replace(metadata, output_position=position, last_seen_ms=seen_ms)
        return TableRecord(
            number=self.number,
            slots=self.table.slots,
            value_bytes=self.table.value_bytes,
            puts=self.puts,
            stamp=encode_metadata(metadata).hex()
            if metadata and metadata.output_position >= 0
            else None,
            marks=self.history.marks,
            segments=self.files,
        )

    def further(self) -> FurtherRecord:
        """Return the further fields of the stamp in `record`, if any is known."""
        fields = further_fields(self.metadata) if self.metadata else {}
        return {further_key(self.record()): fields} if fields else {}

    def describe(self) -> Generation:
        """Describe the table; `keys` is calculated, and right to a thousandth."""
        metadata = self.metadata
        return Generation(
            name=f"t{self.number:08d}",
            keys=round(self.table.slots * lost(self.table.slots, self.puts)),
            size_bytes=self.table.nbytes,
            first_seen_ms=metadata.first_seen_ms if metadata and self.puts else 0,
            last_seen_ms=metadata.last_seen_ms if metadata and self.puts else 0,
            aged_from_ms=metadata.aged_from_ms or metadata.first_seen_ms
            if metadata and self.puts
            else 0,
            aged_to_ms=metadata.aged_to_ms or metadata.last_seen_ms
            if metadata and self.puts
            else 0,
        )

    # -- segments --------------------------------------------------------------------------------

    @property
    def behind(self) -> list[int]:
        """Return the segments whose files are out of date."""
        found: list[int] = np.flatnonzero(self._behind).tolist()
        return found

    def touch(self, slots: Slots) -> None:
        """Record that these slots change.

        What was written up to `metadata` is in their segments on disk.
        """
        touched = np.zeros_like(self._behind)
        touched[segment_of(slots)] = True
        metadata = self.metadata
        self._complete[touched & ~self._behind] = (
            (metadata.output_position, metadata.last_seen_ms) if metadata else (_NOTHING, 0)
        )
        self._behind |= touched

    def forget_owners(self, report: Callable[[], None]) -> None:
        """Make the owner of every id unknown; `report` is called before each piece."""
        self.touch(np.arange(0, self.table.slots, SEGMENT_SLOTS))
        self.table.forget_owners(report)

    def save(self, directory: Path, segment: int, serial: int) -> str | None:
        """Write one segment; returns the file that it takes the place of. Raises OSError."""
        before = self.files[segment]
        self.files[segment] = save_segment(
            directory, self.table, number=self.number, segment=segment, serial=serial
        )
        self._behind[segment] = False
        return before.file if before else None
