"""The ids of one partition in RocksDB.

On-disk layout, one column family for each generation, named g00000001, g00000002, … in the order of their ages:

    key  16 bytes   id                      value  8 bytes or more, see values.py
    key   5 bytes   "stamp"                 value  see metadata.py

Invariants:
  1. The write-ahead log is off: the output topic is the log.
  2. Each generation carries its own metadata, written in the same atomic batch as its ids. So whatever a crash leaves
     of a generation is complete up to the position in the metadata that it leaves.
  3. A generation is flushed before its successor begins. So the newest metadata is valid for the whole store, whatever
     was in memory when the process died, and no flush across column families has to be atomic.

In front of each generation is a Bloom filter in memory, saved next to the database's files (bloom_filter_file.py). If
it was not saved, as after a crash, every id is looked up in RocksDB while `refill` reads the generation's ids into a
new filter. RocksDB checks each block that it reads. If it finds a damaged one, the next opening reads every id, finds
the damage, and the store is replaced.

A store is used from one thread only.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rocksdict import Checkpoint, Rdict

from dedupe_worker.clock import SYSTEM_CLOCK, Clock
from dedupe_worker.errors import store_errors
from dedupe_worker.store.ageing import Bounds, Generation, plan_ageing, window_seconds
from dedupe_worker.store.api import FullyReconcilable
from dedupe_worker.store.bloom_filter import Hashes, any_may_contain, hash_ids
from dedupe_worker.store.column_families import ColumnFamilies
from dedupe_worker.store.generation import OpenGeneration, locate_values, lookup_values, packed_keys
from dedupe_worker.store.metadata import StoreMetadata, next_metadata
from dedupe_worker.values import UNKNOWN_OWNER

_SCAN_KEYS: Final = 100_000


class Store:
    """An `IdStore` and `FullyReconcilable`. A closed store can't be used again.

    Raises StoreCorrupt, DiskFull, StateLocked or StoreFailed from any method.
    """

    def __init__(
        self, path: Path, bounds: Bounds, *, block_cache_bytes: int, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.bounds = bounds
        self._clock = clock
        self._families = ColumnFamilies(
            path,
            generation_bytes=bounds.generation_bytes,
            block_cache_bytes=block_cache_bytes // (bounds.generations + 1),
            clock=clock,
        )
        with store_errors("opening the store"):
            self._db, self._generations = self._open()

    # -- reading ---------------------------------------------------------------------------------

    @property
    def metadata(self) -> StoreMetadata | None:
        """Return up to where the store is complete; None before the first write."""
        return next((g.metadata for g in reversed(self._generations) if g.metadata), None)

    @property
    def reach(self) -> int:
        """Return the end of the output records that the ids are from."""
        metadata = self.metadata
        return metadata.output_position if metadata else 0

    @property
    def forgotten_ms(self) -> int:
        """Return the newest timestamp of dropped ids, Unix milliseconds; 0 if none."""
        metadata = self.metadata
        return metadata.forgotten_ms if metadata else 0

    def generations(self) -> list[Generation]:
        """Return the generations, oldest first."""
        return [g.describe() for g in self._generations]

    def window_seconds(self, now_ms: int) -> float:
        """Return the age of the oldest id."""
        return window_seconds(self.generations(), now_ms)

    def suspects(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each hash whether its id may be in the store: False is certain."""
        if any(g.unread is not None for g in self._generations):
            return np.ones(len(hashes), np.bool_)
        return any_may_contain([g.bloom_filter for g in self._generations], hashes)

    def lookup(self, ids: Sequence[bytes], hashes: Hashes) -> dict[bytes, bytes]:
        """Return the values of the ids in the store, from the newest generation of each."""
        with self._families.errors("reading the store"):
            return lookup_values(self._generations, ids, hashes)

    def locate(self, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes, Generation]]:
        """Return the values of a few ids, each with its newest generation."""
        with self._families.errors("reading the store"):
            return locate_values(self._generations, ids)

    def positions(self) -> list[tuple[str, int | None]]:
        """Return each generation, oldest first, with its output position if it has one."""
        return [
            (g.name, g.metadata.output_position if g.metadata else None) for g in self._generations
        ]

    def ids(self, generation: str) -> Iterator[bytes]:
        """Yield the present ids of a generation, sorted and joined, some at a time."""
        with self._families.errors("reading the store"):
            yield from packed_keys(self._named_generation(generation).family, b"", _SCAN_KEYS)

    def refill(self, seconds: float) -> bool:
        """Read ids into filters that were not saved, for about `seconds`.

        Returns whether more are left. Until the filters are complete, `suspects` suspects every id: none is missed, and
        each costs a lookup.
        """
        deadline = self._clock.deadline(seconds)
        with self._families.errors("reading the store"):
            for generation in self._generations:
                generation.read(deadline)
        return any(g.unread is not None for g in self._generations)

    def fully_reconcilable(self) -> FullyReconcilable:
        """Return the store itself: it can be compared with the output topic."""
        return self

    # -- writing ---------------------------------------------------------------------------------

    def prepare(self, hashes: Hashes) -> None:
        """Let `suspects` find these ids from now on; they may be written later."""
        self._generations[-1].bloom_filter.add(hashes)

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
        """Write sorted ids with their values and the store's new position, all or nothing.

        The ids must have been given to `prepare`. `newest_ms` is the newest timestamp of their records; a timestamp
        after `seen_ms`, or an unknown one, counts as `seen_ms`.
        """
        newest = self._generations[-1]
        metadata = next_metadata(
            newest.metadata,
            self.metadata,
            output_position=output_position,
            input_offset=input_offset,
            added=len(ids),
            seen_ms=seen_ms,
            newest_ms=newest_ms,
        )
        self._write_batch(newest, metadata, ids, owners)

    def mark_truncated(self) -> None:
        """Record that the window is shorter than configured: ids were lost."""
        if self.metadata and not self.metadata.truncated:
            self._mark(truncated=True)

    def mark_forgotten(self, newest_ms: int) -> None:
        """Record that ids of records with timestamps up to `newest_ms` are dropped."""
        if newest_ms > self.forgotten_ms:
            self._mark(forgotten_ms=newest_ms)

    def forget(self, ids: Sequence[bytes]) -> int:
        """Remove ids from every generation; return how many were in the store."""
        known = self.lookup(ids, hash_ids(b"".join(ids)))
        with self._families.errors("writing the store"):
            self._families.delete(self._db, self._generations, list(known))
        return len(known)

    def amend(
        self, generation: str, *, added: Sequence[bytes] = (), removed: Sequence[bytes] = ()
    ) -> None:
        """Add sorted ids, with unknown owners, to a generation, and remove others.

        The generation's position does not change. The ids are on disk only after `flush_all`: until then a crash may
        undo the change. Raises ValueError for a store that was never written.
        """
        latest = self.metadata
        if latest is None:
            raise ValueError("an empty store can't be amended")
        amended = self._named_generation(generation)
        metadata = amended.metadata or replace(latest, keys=0, first_seen_ms=latest.last_seen_ms)
        if added:
            amended.bloom_filter.add(hash_ids(b"".join(added)))
        owners = [UNKNOWN_OWNER] * len(added)
        metadata = metadata.amended(added=len(added), removed=len(removed))
        self._write_batch(amended, metadata, added, owners, removed)

    def flush_all(self) -> None:
        """Flush all generations; only `amend` and `forget` write to older ones."""
        with self._families.errors("flushing the store"):
            for generation in self._generations:
                generation.family.flush()

    def age(self, now_ms: int) -> bool:
        """Seal and drop generations as the bounds require; return whether any dropped."""
        plan = plan_ageing(self.generations(), self.bounds, now_ms)
        with self._families.errors("ageing the store"):
            if plan.drops_for_size:
                self.mark_truncated()
            if plan.seal:
                self._seal()
            if plan.drop:
                dropped = self._generations[: len(plan.drop)]
                self.mark_forgotten(
                    max((g.metadata.newest_ms for g in dropped if g.metadata), default=0)
                )
                self._generations[
                    -1
                ].family.flush()  # the drop is on disk, and so must be its metadata
            for _ in plan.drop:
                self._drop_oldest()
        return bool(plan.drop)

    def flush(self) -> None:
        """Flush the newest generation; older ones are flushed when they are sealed."""
        with self._families.errors("flushing the store"):
            self._generations[-1].family.flush()

    def checkpoint(self, path: Path) -> None:
        """Write a consistent copy to `path`, with hard links if possible."""
        with self._families.errors("writing a checkpoint"):
            Checkpoint(self._db).create_checkpoint(str(path))

    def close(self) -> None:
        """Save the filters, flush, and close all files, even if a flush fails.

        If a saved filter has more ids than are flushed, its metadata differs from what the next opening finds.
        """
        for generation in self._generations:
            generation.keep_bloom_filter()
        with self._families.errors("closing the store"), ExitStack() as handles:
            handles.callback(self._db.close)
            for generation in self._generations:
                handles.callback(generation.family.close)
            self._generations.clear()

    # -- generations -----------------------------------------------------------------------------

    def _open(self) -> tuple[Rdict, list[OpenGeneration]]:
        with ExitStack() as handles:
            database, generations = self._families.open(handles)
            if not generations:
                generations = [self._begin(database, 1)]
            handles.pop_all()
        return database, generations

    def _named_generation(self, name: str) -> OpenGeneration:
        return next(g for g in self._generations if g.name == name)

    def _begin(self, database: Rdict, number: int) -> OpenGeneration:
        return self._families.begin(database, number)

    def _seal(self) -> None:
        newest = self._generations[-1]
        newest.family.flush()  # before its successor begins: invariant 3
        newest.sealed = True
        newest.finish_bloom_filter()
        self._generations.append(self._begin(self._db, int(newest.name[1:]) + 1))

    def _drop_oldest(self) -> None:
        # RocksDB deletes the files with the last handle, which goes with the popped generation.
        self._db.drop_column_family(self._generations[0].name)
        self._generations.pop(0).drop_bloom_filter()

    def _mark(self, **changes: Any) -> None:  # noqa: ANN401 (fields of StoreMetadata)
        """Change the newest metadata; a store that was never written has none."""
        newest, latest = self._generations[-1], self.metadata
        if latest:
            metadata = newest.metadata or replace(latest, keys=0)
            self._write_batch(newest, replace(metadata, **changes), (), ())

    def _write_batch(
        self,
        generation: OpenGeneration,
        metadata: StoreMetadata,
        ids: Sequence[bytes],
        owners: Sequence[bytes],
        removed: Sequence[bytes] = (),
    ) -> None:
        with self._families.errors("writing the store"):
            self._families.write(self._db, generation, metadata, ids, owners, removed=removed)
