"""Small stores for tests, and the ids that go in."""

from datetime import timedelta
from pathlib import Path
from random import Random

from dedupe_ids.extract import ID_BYTES
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.metadata import StoreMetadata
from dedupe_worker.store.rocksdb import Store

MIB = 1 << 20
OWNER = b"\0" * 8


def open_store(path: Path, max_bytes: int = 64 * MIB, generations: int = 5) -> Store:
    """A store, new or opened again. A test closes it, or drops it as a crash would."""
    bounds = Bounds(max_bytes=max_bytes, max_age=timedelta(days=28), generations=generations)
    return Store(path, bounds, block_cache_bytes=8 * MIB)


def random_ids(seed: int, count: int) -> bytes:
    """Packed ids, joined."""
    return Random(seed).randbytes(ID_BYTES * count)


def remember(store: IdStore, packed: bytes, *, position: int, now_ms: int = 0) -> int:
    """One transaction of these ids; returns how many of them were known."""
    window, count = Window(store), len(packed) // ID_BYTES
    repeats = window.admit(packed, [OWNER] * count)
    window.commit(output_position=position, input_offset=position, seen_ms=now_ms)
    return len(repeats)


def count_known(store: IdStore, packed: bytes) -> int:
    """How many of these ids are remembered; nothing is added."""
    window = Window(store)
    repeats = window.admit(packed, [OWNER] * (len(packed) // ID_BYTES))
    window.abort()
    return len(repeats)


def stamp(position: int = 50, input_offset: int = 70, read_up_to: str = "") -> StoreMetadata:
    """Metadata of a store with one id."""
    return StoreMetadata(
        output_position=position,
        input_offset=input_offset,
        keys=1,
        first_seen_ms=0,
        last_seen_ms=0,
        truncated=False,
        read_up_to=read_up_to,
    )
