"""Open, create and write RocksDB column families, one for each generation.

`rocksdb.Store` calls this. Invariants:
  - Ids and the generation's metadata are written in one atomic batch.
  - A filter on disk is used only if it has the generation's metadata and number of changes, and deleted before ids are
    added to the generation or removed from it.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from rocksdict import Rdict, WriteBatch, WriteOptions

from dedupe_crds.clock import Clock
from dedupe_worker.errors import StoreCorrupt, store_errors
from dedupe_worker.store.bloom_filter import BloomFilter
from dedupe_worker.store.bloom_filter_file import SUFFIX, load_bloom_filter
from dedupe_worker.store.generation import OpenGeneration
from dedupe_worker.store.metadata import (
    METADATA_KEY,
    MORE_KEY,
    StoreMetadata,
    decode_both,
    encode_metadata,
    encode_more,
)
from dedupe_worker.store.progress import Report, Step, no_report
from dedupe_worker.store.rocksdb_options import TableOptions, table_options, tune_tables
from dedupe_worker.store.state_dir import make_directory, sync_to_disk, write_atomically
from dedupe_worker.store.table_files import most_open_files, read_tails

UNTRUSTED: Final = "untrusted"
"""With a file of this name in the database, the next opening reads every id.

It names the generations that were read since, one a line, so that an opening that is killed is continued. A release
that knows no names reads all.
"""

DAMAGED: Final = "damaged"
"""With a file of this name the database is known to be damaged, and no opening reads it to find that again."""

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
        self,
        path: Path,
        *,
        generation_bytes: int,
        block_cache_bytes: int,
        clock: Clock,
        report: Report = no_report,
    ) -> None:
        self._path = path
        self._clock = clock
        self._report = report
        self._options = TableOptions(
            generation_bytes=generation_bytes, block_cache_bytes=block_cache_bytes
        )
        self._most_ids = generation_bytes // _ID_DISK_BYTES
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign,assignment] # the stub calls the property a method

    def open(self, handles: ExitStack) -> tuple[Rdict, list[OpenGeneration]]:
        """Open the database and its generations, oldest first; a new one has one.

        `handles` gets what must be closed after an error: a handle that stays open keeps the files locked.
        """
        if (self._path / DAMAGED).exists():
            raise StoreCorrupt("opening the store: an earlier opening found it damaged")
        names = []
        if (self._path / CURRENT).exists():
            names = sorted(n for n in Rdict.list_cf(str(self._path)) if n != "default")
        make_directory(self._path)
        options = {name: table_options(self._options) for name in names}
        files = list(self._path.glob("*.sst"))
        self._report(Step.OPENING_FILES, 0, len(files))
        read_tails(files, lambda done: self._report(Step.OPENING_FILES, done, len(files)))
        of_database = table_options(self._options)
        of_database.set_max_open_files(most_open_files())
        database = Rdict(str(self._path), of_database, column_families=options)
        handles.callback(database.close)
        families = {name: database.get_column_family(name) for name in names}
        for family in families.values():
            handles.callback(family.close)
        return database, self._load(families) or [self.begin(database, 1)]

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
        with self.errors("writing the store"):
            batch = WriteBatch(raw_mode=True)
            batch.set_default_column_family(database.get_column_family_handle(generation.name))
            deque(map(batch.put, ids, owners), maxlen=0)  # a loop in C: 0.06 us a key
            deque(map(batch.delete, removed), maxlen=0)
            batch.put(METADATA_KEY, encode_metadata(metadata))
            batch.put(MORE_KEY, encode_more(metadata))
            database.write(batch, self._unlogged)
        generation.metadata = metadata

    @contextmanager
    def errors(self, action: str) -> Iterator[None]:
        """Translate what RocksDB raises.

        After damage, let the next opening read every id to find all of it.
        """
        try:
            with store_errors(action):
                yield
        except StoreCorrupt:
            self._leave(UNTRUSTED)
            raise

    @contextmanager
    def errors_at_opening(self) -> Iterator[None]:
        """Translate what RocksDB raises; damage that was found is not looked for again."""
        try:
            with store_errors("opening the store"):
                yield
        except StoreCorrupt:
            self._leave(DAMAGED)
            raise

    def _leave(self, mark: str) -> None:
        with suppress(OSError):
            (self._path / mark).write_text("")
            sync_to_disk(self._path)

    def _load(self, families: dict[str, Rdict]) -> list[OpenGeneration]:
        """Load each generation and its filter.

        If the store is small or not trusted, every id is read instead.
        """
        generations = [self._load_generation(name, family) for name, family in families.items()]
        for path in set(self._path.glob(f"*{SUFFIX}*")) - {g.filter_path for g in generations}:
            path.unlink()  # of a generation that was dropped, or unfinished
        untrusted = self._path / UNTRUSTED
        distrusted = untrusted.exists()
        verified = set(untrusted.read_text().split()) if distrusted else set()
        ids = sum(g.metadata.keys for g in generations if g.metadata)
        everything = ids <= _READ_AT_OPENING_IDS or distrusted
        read = 0
        for generation in generations:
            generation.sealed = generation is not generations[-1]
            metadata = generation.metadata
            kept = None
            if metadata and (not everything or generation.name in verified):
                loading = partial(self._report, Step.LOADING_FILTERS, read, ids)
                kept = load_bloom_filter(
                    generation.filter_path, metadata, self._most_ids, report=loading
                )
            if kept:
                generation.bloom_filter, generation.unread, generation.kept = kept, None, True
            else:
                generation.filter_path.unlink(missing_ok=True)
            if everything:
                generation.read(self._clock.deadline(math.inf), self.reading(read, ids))
            if distrusted and generation.kept:
                verified.add(generation.name)
                write_atomically(untrusted, "\n".join(verified))
            read += metadata.keys if metadata else 0
        if distrusted:
            untrusted.unlink()
            sync_to_disk(self._path)
        return generations

    def reading(self, before: int, total: int) -> Callable[[int], None]:
        """Return a report of a generation's ids; `before` were read of others."""

        def report(read: int) -> None:
            self._report(Step.READING_IDS, before + read, max(total, before + read))

        return report

    def _load_generation(self, name: str, family: Rdict) -> OpenGeneration:
        self._prepare(family)
        value = family.get(METADATA_KEY)
        metadata = decode_both(value, family.get(MORE_KEY)) if value is not None else None
        bloom_filter = BloomFilter(metadata.keys if metadata else 0, self._most_ids)
        unread = b"" if metadata else None
        return OpenGeneration(name, family, bloom_filter, metadata, self._filter_path(name), unread)

    def _prepare(self, family: Rdict) -> None:
        family.set_write_options(self._unlogged)
        tune_tables(family)

    def _filter_path(self, name: str) -> Path:
        return self._path / (name + SUFFIX)
