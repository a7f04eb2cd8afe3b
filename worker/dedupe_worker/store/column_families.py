"""Open, create and write RocksDB column families, one for each generation.

`rocksdb.Store` calls this. Invariants:
  - Ids and the generation's metadata are written in one atomic batch.
  - A filter on disk is used only if it has the generation's metadata, and deleted before ids are added to it.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from rocksdict import Rdict, WriteBatch, WriteOptions

from dedupe_worker.clock import Clock
from dedupe_worker.errors import StoreCorrupt, store_errors
from dedupe_worker.store.bloom_filter import BloomFilter
from dedupe_worker.store.bloom_filter_file import SUFFIX, load_bloom_filter
from dedupe_worker.store.generation import OpenGeneration
from dedupe_worker.store.metadata import (
    METADATA_KEY,
    StoreMetadata,
    decode_metadata,
    encode_metadata,
)
from dedupe_worker.store.rocksdb_options import TableOptions, table_options, tune_tables

UNTRUSTED: Final = "untrusted"
"""With a file of this name in the database, the next opening reads every id."""

CURRENT: Final = "CURRENT"
"""A file of RocksDB that every database has."""

_READ_AT_OPENING_IDS: Final = 1_000_000
"""A store of at most this size is read when it is opened, to find damage at once.

It takes up to half a second.
"""

_ID_DISK_BYTES: Final = 28
"""The approximate size of an id on disk, to estimate a generation's ids."""


class ColumnFamilies:
    """The column families below `path`. Raises what RocksDB raises, and StoreCorrupt."""

    def __init__(
        self, path: Path, *, generation_bytes: int, block_cache_bytes: int, clock: Clock
    ) -> None:
        self._path = path
        self._clock = clock
        self._options = TableOptions(
            generation_bytes=generation_bytes, block_cache_bytes=block_cache_bytes
        )
        self._most_ids = generation_bytes // _ID_DISK_BYTES
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign,assignment] # the stub calls the property a method

    def open(self, handles: ExitStack) -> tuple[Rdict, list[OpenGeneration]]:
        """Open the database and its generations, oldest first; none if it is new.

        `handles` gets what must be closed after an error: a handle that stays open keeps the files locked.
        """
        names = []
        if (self._path / CURRENT).exists():
            names = sorted(n for n in Rdict.list_cf(str(self._path)) if n != "default")
        self._path.mkdir(parents=True, exist_ok=True)
        options = {name: table_options(self._options) for name in names}
        database = Rdict(str(self._path), table_options(self._options), column_families=options)
        handles.callback(database.close)
        families = {name: database.get_column_family(name) for name in names}
        for family in families.values():
            handles.callback(family.close)
        return database, self._load(families)

    def begin(self, database: Rdict, number: int) -> OpenGeneration:
        """Create the column family of a new generation."""
        name = f"g{number:08d}"
        family = database.create_column_family(name, table_options(self._options))
        self._prepare(family)
        return OpenGeneration(
            name, family, BloomFilter(most_ids=self._most_ids), None, self._filter_path(name)
        )

    def write(
        self,
        database: Rdict,
        generation: OpenGeneration,
        metadata: StoreMetadata,
        ids: Sequence[bytes],
        owners: Sequence[bytes],
        *,
        removed: Sequence[bytes] = (),
    ) -> None:
        """Write sorted ids with their owners and the metadata, all or nothing.

        The `removed` ids are deleted with it.
        """
        generation.drop_bloom_filter()
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(database.get_column_family_handle(generation.name))
        deque(map(batch.put, ids, owners), maxlen=0)  # a loop in C: 0.06 us a key
        deque(map(batch.delete, removed), maxlen=0)
        batch.put(METADATA_KEY, encode_metadata(metadata))
        database.write(batch, self._unlogged)
        generation.metadata = metadata

    def delete(
        self, database: Rdict, generations: Sequence[OpenGeneration], ids: Sequence[bytes]
    ) -> None:
        """Delete ids from all these generations; their metadata stays."""
        batch = WriteBatch(raw_mode=True)
        for generation in generations:
            handle = database.get_column_family_handle(generation.name)
            for id_ in ids:
                batch.delete(id_, handle)
        database.write(batch, self._unlogged)

    @contextmanager
    def errors(self, action: str) -> Iterator[None]:
        """Translate what RocksDB raises.

        After damage, let the next opening read every id to find all of it.
        """
        try:
            with store_errors(action):
                yield
        except StoreCorrupt:
            with suppress(OSError):
                (self._path / UNTRUSTED).touch()
            raise

    def _load(self, families: dict[str, Rdict]) -> list[OpenGeneration]:
        """Load each generation and its filter.

        If the store is small or not trusted, every id is read instead.
        """
        generations = [self._load_generation(name, family) for name, family in families.items()]
        for path in set(self._path.glob(f"*{SUFFIX}*")) - {g.filter_path for g in generations}:
            path.unlink()  # of a generation that was dropped, or unfinished
        untrusted = self._path / UNTRUSTED
        ids = sum(g.metadata.keys for g in generations if g.metadata)
        everything = ids <= _READ_AT_OPENING_IDS or untrusted.exists()
        for generation in generations:
            generation.sealed = generation is not generations[-1]
            metadata = generation.metadata
            kept = None
            if metadata and not everything:
                kept = load_bloom_filter(generation.filter_path, metadata, self._most_ids)
            if kept:
                generation.bloom_filter, generation.unread, generation.kept = kept, None, True
            else:
                generation.filter_path.unlink(missing_ok=True)
            if everything:
                generation.read(self._clock.deadline(math.inf))
        untrusted.unlink(missing_ok=True)
        return generations

    def _load_generation(self, name: str, family: Rdict) -> OpenGeneration:
        self._prepare(family)
        value = family.get(METADATA_KEY)
        metadata = decode_metadata(value) if value is not None else None
        bloom_filter = BloomFilter(metadata.keys if metadata else 0, self._most_ids)
        unread = b"" if metadata else None
        return OpenGeneration(name, family, bloom_filter, metadata, self._filter_path(name), unread)

    def _prepare(self, family: Rdict) -> None:
        family.set_write_options(self._unlogged)
        tune_tables(family)

    def _filter_path(self, name: str) -> Path:
        return self._path / (name + SUFFIX)
