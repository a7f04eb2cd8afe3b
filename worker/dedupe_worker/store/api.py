"""The interface of a store of ids.

The loop, the start-up and the admin commands use it. `rocksdb.Store` and `inverse_bloom.store.InverseBloomStore`
implement `IdStore`. Only the first can also be compared with the output topic: `fully_reconcilable` returns that part
of the interface, or raises.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dedupe_worker.origins import Origins
from dedupe_worker.store.ageing import Bounds, Generation
from dedupe_worker.store.bloom_filter import Hashes
from dedupe_worker.store.learnt import LearntOutputs
from dedupe_worker.store.metadata import NO_RECORDS, LastRecords, StoreMetadata


class FullyReconcilable(Protocol):
    """A store whose ids a full reconcile can list by generation, and correct."""

    bounds: Bounds

    def positions(self) -> list[tuple[str, int | None]]:
        """Return each generation, oldest first, with its output position.

        None while it is empty.
        """

    def ids(self, generation: str) -> Iterator[bytes]:
        """Yield the present ids of a generation, sorted and joined, some at a time."""

    def amend(
        self,
        generation: str,
        *,
        added: Sequence[bytes] = (),
        values: Sequence[bytes] | None = None,
        removed: Sequence[bytes] = (),
    ) -> None:
        """Add ids to a generation, and remove others from it. Both are sorted.

        `values` are those of the added ids; by default their owners are unknown.
        """

    def flush_all(self) -> None:
        """Bring all changes to disk."""


class IdStore(Protocol):
    """The ids of one partition.

    Used from one thread; raises StoreCorrupt, DiskFull or StoreFailed.
    """

    bounds: Bounds

    @property
    def metadata(self) -> StoreMetadata | None:
        """Return up to where the store is complete; None before the first write."""

    @property
    def reach(self) -> int:
        """Return the end of the output records that the ids are from."""

    @property
    def forgotten_ms(self) -> int:
        """Return the newest timestamp of ids that were dropped, Unix milliseconds.

        0 if there is none.
        """

    @property
    def aged_ms(self) -> int:
        """Return the last time of the clock by which ids age, Unix milliseconds.

        0 if there is none.
        """

    def generations(self) -> list[Generation]:
        """Return the generations, oldest first."""

    def window_seconds(self, now_ms: int) -> float:
        """Return the age of the oldest id; `now_ms` is of the clock by which ids age."""

    def suspects(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each hash whether its id may be in the store: False is certain."""

    def lookup(self, ids: Sequence[bytes], hashes: Hashes) -> dict[bytes, bytes]:
        """Return the values of the ids that are in the store."""

    def locate(self, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes, Generation]]:
        """Return the values of the ids in the store, each with its generation.

        For a few ids.
        """

    def refill(self, seconds: float) -> bool:
        """Read ids into filters that were not saved, for about `seconds`.

        Return whether more are left to read.
        """

    def fully_reconcilable(self) -> FullyReconcilable:
        """Return the interface for a full reconcile.

        Raises NotComparable if the store has none.
        """

    @property
    def origins(self) -> Origins:
        """Return the numbers of the places in owners; the next `write` keeps additions."""

    @property
    def learnt(self) -> LearntOutputs:
        """Return what was learnt of other outputs; the next `write` keeps additions."""

    def begin_input(self, input_topic: str, *, unlabelled: str = "") -> None:
        """Set the input topic of the offsets and owners that are written from now on.

        `unlabelled` is the topic of metadata that names none. If the metadata is of another topic, its input offset
        becomes unknown, and so do the owners of the ids; that is on disk when this returns.
        """

    def prepare(self, hashes: Hashes) -> None:
        """Let `suspects` find these ids from now on.

        They are written later, or not at all.
        """

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
        """Write sorted ids with their values and the store's new position, all or nothing.

        The ids must have been given to `prepare`. `newest_ms` is the newest timestamp of their records; a timestamp
        after `seen_ms`, or an unknown one, counts as `seen_ms`. `aged_ms` is the time by which the ids will age, see
        dedup/ageing_clock.py; without it that is `seen_ms`. `own_output` is as in metadata.py.
        """

    def mark_truncated(self) -> None:
        """Record that the window is shorter than configured.

        Ids were lost, or dropped for size.
        """

    def mark_forgotten(self, newest_ms: int) -> None:
        """Record that ids of records with timestamps up to `newest_ms` are dropped."""

    def forget(self, ids: Sequence[bytes]) -> int:
        """Remove ids; return how many were in the store."""

    def flush_all(self) -> None:
        """Bring everything to disk, also what `forget` removed from older generations."""

    def age(self, now_ms: int) -> int:
        """Drop generations if the bounds require it; return how many were dropped.

        `now_ms` is of the clock by which ids age.
        """

    def flush(self) -> None:
        """Bring what was written to disk."""

    def checkpoint(self, path: Path) -> None:
        """Write a consistent copy to `path`, with hard links if possible."""

    def close(self) -> None:
        """Flush, and close all files."""
