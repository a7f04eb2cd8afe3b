"""Records that stay in the extension.

Python has arrays of them, and an object of the few that it reads.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast, overload

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from dedupe_ids.batch import Mask
from dedupe_ids.extract import PackedIds
from dedupe_worker.dedup.records import ArrayRecords, Arrays

Headers = list[tuple[str, bytes | None]]

_ROW: Final = np.intp
_OFFSET: Final = np.uint64
_TIME: Final = np.int64


class NativeRecord(NamedTuple):
    """One record, with the methods of a Message that the worker uses."""

    place: int
    time_ms: int
    content: tuple[bytes | None, bytes | None, Headers]

    def key(self) -> bytes | None:
        """Return the key."""
        return self.content[0]

    def value(self) -> bytes | None:
        """Return the value."""
        return self.content[1]

    def headers(self) -> Headers | None:
        """Return the headers; None if there are none."""
        return self.content[2] or None

    def timestamp(self) -> tuple[int, int]:
        """Return the type, and Unix milliseconds."""
        return TIMESTAMP_CREATE_TIME, self.time_ms

    def offset(self) -> int:
        """Return the offset."""
        return self.place


class NativeRecords(ArrayRecords):
    """A batch of the extension, or the records of it that a mask keeps."""

    def __init__(self, batch: Any, kept: Mask | None = None) -> None:  # noqa: ANN401 (dedupe_native.Batch)
        self.batch = batch
        self.kept = kept
        self._rows = None if kept is None else np.flatnonzero(kept)

    def __len__(self) -> int:
        return len(self.batch) if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        rows = range(len(self.batch)) if self._rows is None else self._rows
        if isinstance(at, slice):
            return [self._record(int(row)) for row in rows[at]]
        return self._record(int(rows[at]))

    @property
    def arrays(self) -> Arrays:
        """Return the arrays of the whole batch."""
        batch = self.batch
        return Arrays(
            PackedIds(np.frombuffer(batch.rows, _ROW), batch.ids),
            np.frombuffer(batch.offsets, _OFFSET),
            np.frombuffer(batch.times, _TIME),
        )

    def choose(self, mask: Mask) -> Sequence[Message]:
        """Return the records that a mask of the whole batch keeps."""
        return self if mask.all() else NativeRecords(self.batch, mask)

    def _record(self, row: int) -> Message:
        _, offsets, times = self.arrays
        found = NativeRecord(int(offsets[row]), int(times[row]), self.batch.content(row))
        return cast("Message", found)  # a class of C, without an interface
