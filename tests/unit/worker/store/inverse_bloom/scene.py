"""Small stores for tests: of small segments, and written as often as can be."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.inverse_bloom import flush as disk
from dedupe_worker.store.inverse_bloom import segments as files
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore

SLOTS = 20_000
DAY_MS = 24 * 3600 * 1000
BOUNDS = Bounds(max_bytes=1 << 30, max_age=timedelta(days=28), generations=5)


@contextmanager
def small_segments(*, slots: int = 3_000, written_after_share: float = 1 / 8) -> Iterator[None]:
    """Segments of so many slots, each of which is written as soon as it is due."""
    with (
        patch.object(files, "SEGMENT_SLOTS", slots),
        patch.object(disk, "_WRITTEN_AFTER_SHARE", written_after_share),
        patch.object(disk, "_WRITING_SHARE", float("inf")),
    ):
        yield


def open_store(path: Path, slots: int = SLOTS, value_bytes: int = 8) -> InverseBloomStore:
    """A store, new or opened again. A test closes it, or drops it as a crash would."""
    return InverseBloomStore(path, BOUNDS, slots=slots, value_bytes=value_bytes)
