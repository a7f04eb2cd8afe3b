"""The remembered ids of one partition in RocksDB.

On-disk layout, one column family for each generation, named g00000001, g00000002, … in the order of their ages:

    key  16 bytes   id                      value  8 bytes  owner (see owner.py)
    key   5 bytes   "stamp"                 value  see stamp.py

The write-ahead log is off: the output topic is the log. Each generation carries its own stamp, written in the same
atomic batch as its ids, so that what a crash leaves of a generation is always complete up to the stamp it is left
with. A generation is flushed before its successor begins, so the newest stamp speaks for the whole store, whatever
was in memory when the process died; no flush across column families has to be atomic.

Ahead of each generation stands a filter in memory, kept beside the files (prefilter_file.py). Where none was kept, as
after a crash, every id is looked up in RocksDB while `refill` reads the generation's ids into a new one. RocksDB checks
each block that it reads; what it finds damaged then has the next opening read everything, to find it and be replaced.

A store is used from one thread only.
"""

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rocksdict import Checkpoint, Rdict, WriteBatch, WriteOptions

from dedupe_worker.errors import StoreCorrupt, store_errors
from dedupe_worker.store.ageing import Bounds, Generation, plan_ageing, window_seconds
from dedupe_worker.store.bloom_filter import Hashes, Prefilter, any_may_contain, hash_ids
from dedupe_worker.store.bloom_filter_file import SUFFIX, load_prefilter
from dedupe_worker.store.generation import OpenGeneration, multi_get, packed_keys
from dedupe_worker.store.metadata import STAMP_KEY, Stamp, decode_stamp, encode_stamp
from dedupe_worker.store.rocksdb_options import TableOptions, table_options, tune_tables
from dedupe_worker.values import UNKNOWN_OWNER

UNTRUSTED: Final = "untrusted"
"""A file of this name in the database's directory has the opening read every id; it goes when all are well."""

CURRENT: Final = "CURRENT"
"""RocksDB's file that every database has."""

_SCAN_KEYS: Final = 100_000
_READ_AT_OPENING_IDS: Final = 1_000_000
"""Of a store up to this size every id is read when it is opened, within half a second: damage is found at once."""

_ID_DISK_BYTES: Final = 28
"""About what an id takes, to guess how many a generation will hold."""


class Store:
    """Open with `Store(...)`, end with `close()`; a closed store is of no further use.

    Raises StoreCorrupt, DiskFull, StateLocked or StoreFailed from any method.
    """

    def __init__(self, path: Path, bounds: Bounds, *, block_cache_bytes: int) -> None:
        self._path = path
        self.bounds = bounds
        self._options = TableOptions(
            generation_bytes=bounds.generation_bytes,
            block_cache_bytes=block_cache_bytes // (bounds.generations + 1),
        )
        self._most_ids = bounds.generation_bytes // _ID_DISK_BYTES
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign,assignment] # the stub calls the property a method
        with store_errors("opening the store"):
            self._db, self._generations = self._open()

    # -- reading ---------------------------------------------------------------------------------

    @property
    def stamp(self) -> Stamp | None:
        """What the store is complete up to; None if nothing was ever written."""
        return next((g.stamp for g in reversed(self._generations) if g.stamp), None)

    @property
    def reach(self) -> int:
        """The output position before which all its ids are from."""
        stamp = self.stamp
        return stamp.output_position if stamp else 0

    @property
    def forgotten_ms(self) -> int:
        """The newest timestamp of what was remembered once and no longer is, Unix milliseconds; 0 if nothing."""
        stamp = self.stamp
        return stamp.forgotten_ms if stamp else 0

    def generations(self) -> list[Generation]:
        """The generations, oldest first."""
        return [g.describe() for g in self._generations]

    def window_seconds(self, now_ms: int) -> float:
        """Age of the oldest id remembered."""
        return window_seconds(self.generations(), now_ms)

    def suspects(self, hashes: Hashes) -> NDArray[np.bool_]:
        """For each hash whether its id may be in the store: False is certain."""
        if any(g.unread is not None for g in self._generations):
            return np.ones(len(hashes), np.bool_)
        return any_may_contain([g.prefilter for g in self._generations], hashes)

    def lookup(self, ids: Sequence[bytes], hashes: Hashes) -> dict[bytes, bytes]:
        """The owners of those ids that are remembered, from the newest generation that has each."""
        owners: dict[bytes, bytes] = {}
        with self._errors("reading the store"):
            for generation in reversed(self._generations):
                rows = np.flatnonzero(generation.may_contain(hashes)).tolist()
                asked = [ids[row] for row in rows if ids[row] not in owners]
                if asked:
                    found = multi_get(generation.family, asked)
                    owners.update((i, o) for i, o in zip(asked, found, strict=True) if o)
        return owners

    def locate(self, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes, Generation]]:
        """The owners of those ids that are remembered, each with the newest generation that has it; for a few ids."""
        found: dict[bytes, tuple[bytes, Generation]] = {}
        with self._errors("reading the store"):
            for generation in self._generations:
                owners = multi_get(generation.family, list(ids))
                described = generation.describe()
                found.update((i, (o, described)) for i, o in zip(ids, owners, strict=True) if o)
        return found

    def positions(self) -> list[tuple[str, int | None]]:
        """Each generation, oldest first, with the output position it is complete up to; None while it is empty."""
        return [(g.name, g.stamp.output_position if g.stamp else None) for g in self._generations]

    def ids(self, generation: str) -> Iterator[bytes]:
        """The ids of a generation as they are now, in order and joined, some at a time."""
        with self._errors("reading the store"):
            yield from packed_keys(self._named_generation(generation).family, b"", _SCAN_KEYS)

    def refill(self, seconds: float) -> bool:
        """Read ids into filters that were not kept, for about as long; True while there are more to read.

        Until then `suspects` suspects every id: nothing is missed, and each costs a lookup.
        """
        deadline = time.monotonic() + seconds
        with self._errors("reading the store"):
            for generation in self._generations:
                generation.read(deadline)
        return any(g.unread is not None for g in self._generations)

    # -- writing ---------------------------------------------------------------------------------

    def prepare(self, hashes: Hashes) -> None:
        """Let `suspects` find these ids from now on; they are written (or not) later."""
        self._generations[-1].prefilter.add(hashes)

    def write(
        self,
        ids: Sequence[bytes],
        owners: Sequence[bytes],
        *,
        output_position: int,
        input_offset: int,
        seen_ms: int,
        newest_ms: int | None = None,
    ) -> None:
        """Add ids, sorted, with their owners and what the store is then complete up to, all or nothing.

        The ids must have been given to `prepare`. `newest_ms` is the newest timestamp of their records; what is after
        `seen_ms`, or not known, counts as that.
        """
        newest = self._generations[-1]
        before = newest.stamp
        newest_ms = seen_ms if newest_ms is None else min(newest_ms, seen_ms)
        stamp = Stamp(
            output_position=output_position,
            input_offset=input_offset,
            keys=(before.keys if before else 0) + len(ids),
            first_seen_ms=before.first_seen_ms if before and before.keys else seen_ms,
            last_seen_ms=max(seen_ms, before.last_seen_ms if before else 0),
            truncated=bool(self.stamp and self.stamp.truncated),
            newest_ms=max(newest_ms, before.newest_ms if before else 0),
            forgotten_ms=self.forgotten_ms,
        )
        self._write_batch(newest, stamp, ids, owners)

    def mark_truncated(self) -> None:
        """Record that the window does not reach back to where it should: ids were lost or given up for size."""
        if self.stamp and not self.stamp.truncated:
            self._mark(truncated=True)

    def mark_forgotten(self, newest_ms: int) -> None:
        """Record that ids of records with timestamps up to then are no longer remembered, or never were."""
        if newest_ms > self.forgotten_ms:
            self._mark(forgotten_ms=newest_ms)

    def forget(self, ids: Sequence[bytes]) -> int:
        """Remove ids from every generation; returns how many were remembered."""
        known = self.lookup(ids, hash_ids(b"".join(ids)))
        with self._errors("writing the store"):
            batch = WriteBatch(raw_mode=True)
            for generation in self._generations:
                handle = self._db.get_column_family_handle(generation.name)
                for one in known:
                    batch.delete(one, handle)
            self._db.write(batch, self._unlogged)
        return len(known)

    def amend(
        self, generation: str, *, added: Sequence[bytes] = (), removed: Sequence[bytes] = ()
    ) -> None:
        """Add ids to a generation, their owners unknown, and remove others from it, both sorted.

        What it is complete up to stays as it was. On disk only after `settle`: until then a crash may undo it.
        Raises ValueError for a store that nothing was ever written to.
        """
        latest = self.stamp
        if latest is None:
            raise ValueError("an empty store can't be amended")
        amended = self._named_generation(generation)
        stamp = amended.stamp or replace(latest, keys=0, first_seen_ms=latest.last_seen_ms)
        keys = max(0, stamp.keys + len(added) - len(removed))
        if added:
            amended.prefilter.add(hash_ids(b"".join(added)))
        owners = [UNKNOWN_OWNER] * len(added)
        self._write_batch(amended, replace(stamp, keys=keys), added, owners, removed)

    def settle(self) -> None:
        """Bring everything to disk, in older generations too, which only `amend` and `forget` write to."""
        with self._errors("flushing the store"):
            for generation in self._generations:
                generation.family.flush()

    def age(self, now_ms: int) -> bool:
        """Seal the newest generation and drop the oldest as their bounds ask for; True if any was dropped."""
        plan = plan_ageing(self.generations(), self.bounds, now_ms)
        with self._errors("ageing the store"):
            if plan.drops_for_size:
                self.mark_truncated()
            if plan.seal:
                self._seal()
            if plan.drop:
                dropped = self._generations[: len(plan.drop)]
                self.mark_forgotten(max((g.stamp.newest_ms for g in dropped if g.stamp), default=0))
                self._generations[-1].family.flush()  # a drop lasts, and so must what it says
            for _ in plan.drop:
                self._drop_oldest()
        return bool(plan.drop)

    def flush(self) -> None:
        """Bring everything to disk."""
        with self._errors("flushing the store"):
            self._generations[-1].family.flush()

    def checkpoint(self, path: Path) -> None:
        """Write a consistent copy of the store to `path`, by hard links where the file system has them."""
        with self._errors("writing a checkpoint"):
            Checkpoint(self._db).create_checkpoint(str(path))

    def close(self) -> None:
        """Flush and let go of the files: of all of them, so that they can be opened again, even if a flush fails.

        A filter that is kept of more than what gets flushed has another stamp than what the next opening finds.
        """
        for generation in self._generations:
            generation.keep_prefilter()
        with self._errors("closing the store"), ExitStack() as handles:
            handles.callback(self._db.close)
            for generation in self._generations:
                handles.callback(generation.family.close)
            self._generations.clear()

    # -- column families -------------------------------------------------------------------------

    def _open(self) -> tuple[Rdict, list[OpenGeneration]]:
        names = []
        if (self._path / CURRENT).exists():
            names = sorted(n for n in Rdict.list_cf(str(self._path)) if n != "default")
        self._path.mkdir(parents=True, exist_ok=True)
        options = {name: table_options(self._options) for name in names}
        database = Rdict(str(self._path), table_options(self._options), column_families=options)
        with ExitStack() as handles:
            # Whatever fails, no handle stays: each keeps the files locked for as long as the error is looked at.
            handles.callback(database.close)
            families = {name: database.get_column_family(name) for name in names}
            for family in families.values():
                handles.callback(family.close)
            generations = self._load(families)
            if not generations:
                generations = [self._begin(database, 1)]
            handles.pop_all()
        return database, generations

    def _load(self, families: dict[str, Rdict]) -> list[OpenGeneration]:
        generations = [self._load_one(name, family) for name, family in families.items()]
        for path in set(self._path.glob(f"*{SUFFIX}*")) - {g.filter_path for g in generations}:
            path.unlink()  # of a generation that was dropped, or unfinished
        untrusted = self._path / UNTRUSTED
        ids = sum(g.stamp.keys for g in generations if g.stamp)
        everything = ids <= _READ_AT_OPENING_IDS or untrusted.exists()
        for generation in generations:
            generation.sealed = generation is not generations[-1]
            stamp = generation.stamp
            kept = None
            if stamp and not everything:
                kept = load_prefilter(generation.filter_path, stamp, self._most_ids)
            if kept:
                generation.prefilter, generation.unread, generation.kept = kept, None, True
            else:
                generation.filter_path.unlink(missing_ok=True)
            if everything:
                generation.read(math.inf)
        untrusted.unlink(missing_ok=True)
        return generations

    def _load_one(self, name: str, family: Rdict) -> OpenGeneration:
        family.set_write_options(self._unlogged)
        tune_tables(family)
        value = family.get(STAMP_KEY)
        stamp = decode_stamp(value) if value is not None else None
        prefilter = Prefilter(stamp.keys if stamp else 0, self._most_ids)
        unread = b"" if stamp else None
        return OpenGeneration(name, family, prefilter, stamp, self._filter_path(name), unread)

    def _filter_path(self, name: str) -> Path:
        return self._path / (name + SUFFIX)

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Name what RocksDB raises; damage, for the next opening to find it."""
        try:
            with store_errors(action):
                yield
        except StoreCorrupt:
            with suppress(OSError):
                (self._path / UNTRUSTED).touch()
            raise

    def _named_generation(self, name: str) -> OpenGeneration:
        return next(g for g in self._generations if g.name == name)

    def _begin(self, database: Rdict, number: int) -> OpenGeneration:
        name = f"g{number:08d}"
        family = database.create_column_family(name, table_options(self._options))
        family.set_write_options(self._unlogged)
        tune_tables(family)
        prefilter = Prefilter(most_ids=self._most_ids)
        return OpenGeneration(name, family, prefilter, None, self._filter_path(name))

    def _seal(self) -> None:
        newest = self._generations[-1]
        newest.family.flush()  # before its successor begins: see the module's first lines
        newest.sealed = True
        newest.finish_prefilter()
        self._generations.append(self._begin(self._db, int(newest.name[1:]) + 1))

    def _drop_oldest(self) -> None:
        # RocksDB deletes the files with the last handle, which goes with the popped generation.
        self._db.drop_column_family(self._generations[0].name)
        self._generations.pop(0).drop_prefilter()

    def _mark(self, **changes: Any) -> None:  # noqa: ANN401 (a Stamp's fields)
        """Change what the newest stamp says; a store that nothing was written to has none."""
        newest, stamp = self._generations[-1], self.stamp
        if stamp:
            self._write_batch(
                newest, replace(newest.stamp or replace(stamp, keys=0), **changes), (), ()
            )

    def _write_batch(
        self,
        generation: OpenGeneration,
        stamp: Stamp,
        ids: Sequence[bytes],
        owners: Sequence[bytes],
        removed: Sequence[bytes] = (),
    ) -> None:
        generation.drop_prefilter()
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._db.get_column_family_handle(generation.name))
        deque(map(batch.put, ids, owners), maxlen=0)  # a loop in C: 0.06 us a key
        deque(map(batch.delete, removed), maxlen=0)
        batch.put(STAMP_KEY, encode_stamp(stamp))
        with self._errors("writing the store"):
            self._db.write(batch, self._unlogged)
        generation.stamp = stamp
