"""Prepare a database of many files to be opened.

`column_families` calls it. RocksDB opens all files in one call that holds the interpreter's lock (rocksdict 0.3.29):
no probe is answered meanwhile. So what it needs of each file is in the page cache by then, whatever the disk is.
"""

import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

# Index, filter and properties stand at the end of a file: 5 % of it (docs/decisions/0027).
_TAIL_SHARE: Final = 12
_FEWEST_BYTES: Final = 64 << 10
_PIECE_BYTES: Final = 1 << 20

# RocksDB's `max_open_files` for files that stay open.
_ALL_FILES: Final = -1
_ENOUGH_FILES: Final = 1 << 16
_OTHER_FILES: Final = 256


def read_tails(files: Sequence[Path], report: Callable[[int], None]) -> None:
    """Read what RocksDB will read of each file, and report after each. Raises OSError."""
    for done, path in enumerate(files, start=1):
        with path.open("rb", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max(size // _TAIL_SHARE, _FEWEST_BYTES)))
            while file.read(_PIECE_BYTES):
                pass
        report(done)


def most_open_files() -> int:
    """Let the process open as many files as it may; return RocksDB's `max_open_files`.

    With a limit that a large store may exceed, RocksDB closes files that were not read for long, instead of failing.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    unlimited = hard == resource.RLIM_INFINITY or hard >= _ENOUGH_FILES
    return _ALL_FILES if unlimited else max(hard - _OTHER_FILES, hard // 2)
