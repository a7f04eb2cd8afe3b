"""Sizes on disk that do not depend on RocksDB's threads.

The size of a generation decides when ids are forgotten, and RocksDB's own figure depends on when its threads flush and
merge. So that a seed has one history, a generation's size is its number of ids times a constant here. The sizes
themselves are tested with a real store, in tests/unit/worker/store.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from unittest.mock import patch

from rocksdict import Rdict

from dedupe_worker.store import column_families
from dedupe_worker.store.ageing import Bounds, Generation
from dedupe_worker.store.generation import OpenGeneration

_describe: Final = OpenGeneration.describe
_bytes_per_id: dict[str, int] = {"now": 64}


@contextmanager
def counted_sizes(bytes_per_id: int) -> Iterator[None]:
    """Let every generation be of so many bytes for each id, up to the end of the context.

    The tests that run in this process afterwards get real sizes.
    """
    _bytes_per_id["now"] = bytes_per_id
    with (
        patch.object(column_families, "tune_tables", _untuned),
        patch.object(Bounds, "largest_write_records", property(_largest_write)),
        patch.object(OpenGeneration, "describe", _described),
    ):
        yield


def _described(generation: OpenGeneration) -> Generation:
    described = _describe(generation)
    return replace(described, size_bytes=described.keys * _bytes_per_id["now"])


def _untuned(_: Rdict) -> None:
    """Leave the tables as they are: a fifth of a schedule's time would go into how their index is built."""


def _largest_write(bounds: Bounds) -> int:
    """Return how many ids are written at once: so few that a rebuild can be interrupted."""
    return max(10, bounds.generation_bytes // _bytes_per_id["now"] // 320)
