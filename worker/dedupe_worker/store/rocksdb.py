"""The ids of one partition in RocksDB.

On-disk layout, one column family for each generation, named g00000001, g00000002, … in the order of their ages:

    key  16 bytes   id                      value  8 bytes or more, see values.py
    key   5 bytes   "stamp"                 value  see metadata.py
    key   4 bytes   "more"                  value  see metadata.py

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
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rocksdict import Checkpoint, Rdict

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_worker.store.ageing import Bounds, Generation, plan_ageing
from dedupe_worker.store.api import FullyReconcilable
from dedupe_worker.store.bloom_filter import Hashes, any_may_contain, hash_ids
from dedupe_worker.store.column_families import ColumnFamilies
from dedupe_worker.store.described import DescribedStore
from dedupe_worker.store.generation import OpenGeneration as Opened
from dedupe_worker.store.generation import (
    find_foreign,
    held_ids,
    locate_values,
    lookup_values,
    named,
    scan,
)
from dedupe_worker.store.metadata import NO_RECORDS, LastRecords, StoreMetadata, next_metadata
from dedupe_worker.store.progress import Report, Step, no_report
from dedupe_worker.store.read_threads import ReadThreads
from dedupe_worker.values import UNKNOWN_OWNER


class Store(DescribedStore):
    """An `IdStore` and `FullyReconcilable`. A closed store can't be used again.

    Raises StoreCorrupt, DiskFull, StateLocked or StoreFailed from any method.
    """

    def __init__(
        self,
        path: Path,
        bounds: Bounds,
        *,
        block_cache_bytes: int,
        clock: Clock = SYSTEM_CLOCK,
        report: Report = no_report,
    ) -> None:
        self.bounds = bounds
        self._clock = clock
        self._aged_ms = 0
        self._families = ColumnFamilies(
            path,
            generation_bytes=bounds.generation_bytes,
            block_cache_bytes=block_cache_bytes // (bounds.generations + 1),
            clock=clock,
            report=report,
        )
        self._report = report
        self._threads = ReadThreads()
        with self._families.errors_at_opening(), ExitStack() as handles:
            self._db, self._generations = self._families.open(handles)
            handles.pop_all()
        self._input_topic = self.metadata.input_topic if self.metadata else ""

    @property
    def metadata(self) -> StoreMetadata | None:
        """Return up to where the store is complete; None before the first write."""
        return next((g.metadata for g in reversed(self._generations) if g.metadata), None)

    def generations(self) -> list[Generation]:
        """Return the generations, oldest first."""
        return [g.describe() for g in self._generations]

    def suspects(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each hash whether its id may be in the store: False is certain."""
        if any(g.unread is not None for g in self._generations):
            return np.ones(len(hashes), np.bool_)
        return any_may_contain([g.bloom_filter for g in self._generations], hashes)

    def lookup(self, ids: Sequence[bytes], hashes: Hashes) -> dict[bytes, bytes]:
        """Return the values of the ids in the store, from the newest generation of each."""
        with self._families.errors("reading the store"):
            return lookup_values(self._generations, ids, hashes, self._threads)

    def locate(self, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes, Generation]]:
        """Return the values of a few ids, each with its newest generation."""
        with self._families.errors("reading the store"):
            return locate_values(self._generations, ids)

    def positions(self) -> list[tuple[str, int | None]]:
        """Return each generation, oldest first, with its output position if it has one."""
        return [(g.name, g.position) for g in self._generations]

    def ids(self, generation: str) -> Iterator[bytes]:
        """Yield the present ids of a generation, sorted and joined, some at a time."""
        with self._families.errors("reading the store"):
            yield from scan(named(self._generations, generation).family)

    def refill(self, seconds: float) -> bool:
        """Read ids into filters that were not saved. See `IdStore.refill`."""
        deadline = self._clock.deadline(seconds)
        with self._families.errors("reading the store"):
            for generation in self._generations:
                ids = generation.metadata.keys if generation.metadata else 0
                generation.read(deadline, self._families.reading(0, ids))
        return any(g.unread is not None for g in self._generations)

    def fully_reconcilable(self) -> FullyReconcilable:
        """Return the store itself: it can be compared with the output topic."""
        return self

    def begin_input(self, input_topic: str, *, unlabelled: str = "") -> None:
        """Set the input topic; seal a generation of another. See `IdStore.begin_input`."""
        self._input_topic = input_topic
        find_foreign(self._generations, input_topic, unlabelled)
        latest = self.metadata
        if latest is None or (latest.input_topic or unlabelled) == input_topic:
            return
        with self._families.errors("writing the store"):
            if not latest.input_topic:
                self._mark(input_topic=unlabelled)
            self._seal()
            newest = self._generations[-1]
            begun = replace(latest.of_new_input(input_topic), keys=0)
            self._families.write(self._db, newest, begun, (), ())
            newest.family.flush()
        find_foreign(self._generations, input_topic, unlabelled)

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
        aged_ms: int | None = None,
        last: LastRecords = NO_RECORDS,
        own_output: str = "",
    ) -> None:
        """Write sorted ids and the new position, all or nothing. See `IdStore.write`."""
        newest = self._generations[-1]
        metadata = next_metadata(
            newest.metadata,
            self.metadata,
            output_position=output_position,
            input_offset=input_offset,
            added=len(ids),
            seen_ms=seen_ms,
            newest_ms=newest_ms,
            aged_ms=seen_ms if aged_ms is None else aged_ms,
            input_topic=self._input_topic,
            last=last,
            own_output=own_output,
            kept=self.kept_texts,
        )
        self._families.write(self._db, newest, metadata, ids, owners)

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
        with self._families.errors("reading the store"):
            held = held_ids(self._generations, ids)
        for name, removed in held.items():
            self.amend(name, removed=removed)
        return len({each for removed in held.values() for each in removed})

    def amend(
        self,
        generation: str,
        *,
        added: Sequence[bytes] = (),
        values: Sequence[bytes] | None = None,
        removed: Sequence[bytes] = (),
    ) -> None:
        """Add sorted ids to a generation, and remove others.

        `values` are those of the added ids; by default their owners are unknown. The position stays. A crash
        may undo it until `flush_all`. Raises ValueError for a store without metadata.
        """
        latest = self.metadata
        if latest is None:
            raise ValueError("an empty store can't be amended")
        amended = named(self._generations, generation)
        metadata = amended.metadata or latest.of_next_generation()
        if added:
            amended.bloom_filter.add(hash_ids(b"".join(added)))
        metadata = metadata.amended(added=len(added), removed=len(removed))
        values = [UNKNOWN_OWNER] * len(added) if values is None else values
        self._families.write(self._db, amended, metadata, added, values, removed=removed)

    def flush_all(self) -> None:
        """Flush all generations; only `amend` and `forget` write to older ones."""
        with self._families.errors("flushing the store"):
            for number, generation in enumerate(self._generations):
                self._report(Step.FLUSHING, number, len(self._generations))
                generation.family.flush()

    def age(self, now_ms: int) -> int:
        """Seal and drop generations as the bounds require; return how many."""
        self._aged_ms = now_ms
        plan = plan_ageing(self.generations(), self.bounds, now_ms)
        with self._families.errors("ageing the store"):
            if plan.drops_for_size:
                self.mark_truncated()
            if plan.seal:
                self._seal()
            if plan.drop:
                dropped = [g.metadata for g in self._generations[: len(plan.drop)]]
                self.mark_forgotten(max((each.newest_ms for each in dropped if each), default=0))
                self._generations[-1].family.flush()  # as the drop is on disk
            for _ in plan.drop:
                self._drop_oldest()
        return len(plan.drop)

    def flush(self) -> None:
        """Flush the newest generation; older ones are flushed when they are sealed."""
        self._mark_aged()
        with self._families.errors("flushing the store"):
            self._generations[-1].family.flush()

    def checkpoint(self, path: Path) -> None:
        """Write a consistent copy to `path`, with hard links if possible."""
        self._mark_aged()
        with self._families.errors("writing a checkpoint"):
            Checkpoint(self._db).create_checkpoint(str(path))

    def close(self) -> None:
        """Save the filters, flush, and close all files, even if a flush fails."""
        self._threads.close()
        for number, generation in enumerate(self._generations):
            step = partial(self._report, Step.SAVING_FILTERS, number, len(self._generations))
            step()
            generation.keep_bloom_filter(step)
        with self._families.errors("closing the store"), ExitStack() as handles:
            handles.callback(self._db.close)
            for generation in self._generations:
                handles.callback(generation.family.close)
            self._generations.clear()

    def _begin(self, database: Rdict, number: int) -> Opened:
        return self._families.begin(database, number)

    def _seal(self) -> None:
        newest = self._generations[-1]
        newest.family.flush()  # before its successor begins: invariant 3
        newest.sealed = True
        newest.finish_bloom_filter(partial(self._report, Step.SAVING_FILTERS, 0, 1))
        self._generations.append(self._begin(self._db, int(newest.name[1:]) + 1))

    def _drop_oldest(self) -> None:
        # RocksDB deletes the files with the last handle, which goes with the popped generation.
        self._db.drop_column_family(self._generations[0].name)
        self._generations.pop(0).drop_bloom_filter()

    def _mark_aged(self) -> None:
        if self.metadata and self._aged_ms > self.metadata.aged_ms:
            self._mark(aged_ms=self._aged_ms)

    def _mark(self, **changes: Any) -> None:  # noqa: ANN401 (fields of StoreMetadata)
        """Change the newest metadata; a store that was never written has none."""
        newest = self._generations[-1]
        if latest := self.metadata:
            metadata = newest.metadata or replace(latest, keys=0)
            self._families.write(self._db, newest, replace(metadata, **changes), (), ())
