"""The interface of a source of ids, which `files` and `topic` implement."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dedupe_ids.column_ids import IdType
from dedupe_worker.store.external_sort import Entries, make_entries

Json = Any  # what json.loads gives


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The names of the columns in files, and the type of the ids.

    Without `id_type` the column's own type decides.
    """

    id: str = "id"
    time: str = "time"
    partition: str = "partition"
    id_type: IdType | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Some ids with the partition of each, shape (n,).

    Reading resumes after them at `position`.

    `without_id` records had none. `done` is how much of the source is read, in its own unit.
    """

    entries: Entries
    partitions: NDArray[np.int64]
    without_id: int
    position: Json
    done: int


def seen_entries(packed: bytes, seen_ms: NDArray[np.int64]) -> Entries:
    """Return entries of n joined ids and when they were seen.

    Times before 1970 count as 1970.
    """
    return make_entries(packed, np.maximum(seen_ms, 0))


class Source(Protocol):
    """A source of ids. `fingerprint` changes when the ids do.

    `total` is in the unit of `Batch.done`.
    """

    @property
    def fingerprint(self) -> Json: ...  # noqa: D102
    @property
    def total(self) -> int: ...  # noqa: D102
    def batches(self, position: Json | None) -> Iterator[Batch]:
        """Yield everything, or what comes after a batch's `position`."""
        ...
