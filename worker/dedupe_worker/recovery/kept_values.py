"""Keep the values of output records in files, by offset.

The full reconcile writes them while it reads the output, before it knows which ids the store lacks. Each record takes
8 bytes, and those of its value.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from dedupe_ids.batch import Rows
from dedupe_worker.errors import store_errors
from dedupe_worker.side_topics.owner_log import OutputValues
from dedupe_worker.values import UNKNOWN_OWNER, timestamps


class KeptValues:
    """Values by the offset of their record. Methods raise DiskFull or StoreFailed."""

    def __init__(self, directory: Path, values: OutputValues) -> None:
        self._values = values
        self._value_bytes = values.layout.dtype.itemsize
        self._offsets_path = directory / "offsets"
        self._values_path = directory / "values"

    def add(self, records: Sequence[Message], rows: Rows, offsets: NDArray[np.int64]) -> None:
        """Keep the values of `rows` (n,) of a batch; `offsets` (n,) only rise."""
        found = self._values.values(records, rows, timestamps(records))
        with store_errors(f"writing to {self._values_path}"):
            for path, content in (
                (self._offsets_path, offsets.astype("<i8")),
                (self._values_path, found),
            ):
                with path.open("ab") as file:
                    file.write(np.ascontiguousarray(content).tobytes())

    def of(self, offsets: NDArray[np.int64]) -> list[bytes]:
        """Return the value of the record at each offset; without a record it has no owner."""
        with store_errors(f"reading {self._values_path}"):
            if not self._offsets_path.exists() or not self._offsets_path.stat().st_size:
                return [UNKNOWN_OWNER] * len(offsets)
            known = np.memmap(self._offsets_path, "<i8", "r")
            values = np.memmap(self._values_path, f"V{self._value_bytes}", "r")
            rows = np.minimum(np.searchsorted(known, offsets), len(known) - 1)
            found: list[bytes] = values[rows].tolist()
        there = known[rows] == offsets
        return [
            value if is_known else UNKNOWN_OWNER
            for value, is_known in zip(found, there.tolist(), strict=True)
        ]
