"""Reports of long steps of a store, for the watchdog and for users.

A store of hundreds of millions of ids takes minutes to read, load or copy. Invariant: whatever takes time for each id
or byte reports after each piece, and a piece takes seconds at most. RocksDB's opening of a database reports nothing,
so what it reads of each file is read before (table_files.py).
"""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

_PIECE_BYTES: Final = 16 << 20


class Step(StrEnum):
    """A long step, as users see it in the status. docs/operations.md explains each."""

    OPENING_FILES = "OpeningFiles"
    READING_IDS = "ReadingIds"
    LOADING_FILTERS = "LoadingFilters"
    SAVING_FILTERS = "SavingFilters"
    LOADING_TABLE = "LoadingTable"
    WRITING_TABLE = "WritingTable"
    COPYING_CHECKPOINT = "CopyingCheckpoint"
    FLUSHING = "Flushing"


Report = Callable[[Step, int, int], None]
"""Called with a step, how much of it is done, and all of it: ids, files or bytes."""


def no_report(_step: Step, _done: int, _total: int) -> None:
    """Ignore a report."""


def copy_file(source: Path, target: Path, report: Callable[[], None]) -> None:
    """Copy a file's content, with a report after each piece. Raises OSError."""
    with source.open("rb") as read, target.open("wb") as written:
        while piece := read.read(_PIECE_BYTES):
            written.write(piece)
            report()
