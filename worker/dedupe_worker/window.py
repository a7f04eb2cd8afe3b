"""The window of remembered ids as the loop sees it: the store, and the ids of the open transaction ahead of it."""

from collections.abc import Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from dedupe_worker.ids import ID_BYTES
from dedupe_worker.owner import OWNER_BYTES
from dedupe_worker.prefilter import hash_ids
from dedupe_worker.store import Store

Owners = dict[bytes, bytes]


def find_repeats(
    ids: Sequence[bytes], owners: Sequence[bytes], suspects: Sequence[int], known: Owners
) -> dict[int, bytes]:
    """Which of the suspect rows repeat an id, and the owner of what each repeats.

    `ids` and `owners` are the batch in order, `known` the ids seen before it with their owners. `suspects` are the
    rows, in order, whose id is in `known` or stands more than once in the batch; others may be among them.
    """
    first: Owners = {}
    repeats: dict[int, bytes] = {}
    for row in suspects:
        one = ids[row]
        owner = known.get(one) or first.get(one)
        if owner is None:
            first[one] = owners[row]
        else:
            repeats[row] = owner
    return repeats


class Window:
    """`admit` batches, then `commit` or `abort` what they added since the last time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._open: Owners = {}

    def admit(self, packed: bytes, owners: Sequence[bytes]) -> dict[int, bytes]:
        """Take in a batch of ids (16 bytes each, joined) with their owners, in order.

        Returns the rows that repeat an id, with the owner of what each repeats; the others are new and
        remembered from now on.
        """
        hashes = hash_ids(packed)
        ids: list[bytes] = np.frombuffer(packed, f"V{ID_BYTES}").tolist()
        suspected = self.store.suspects(hashes) | _repeated(hashes)
        rows = np.flatnonzero(suspected)
        if not len(rows):
            self.store.prepare(hashes)
            self._open.update(zip(ids, owners, strict=True))
            return {}
        suspects = rows.tolist()
        known = self.store.lookup([ids[row] for row in suspects], hashes[rows])
        known.update((ids[row], self._open[ids[row]]) for row in suspects if ids[row] in self._open)
        repeats = find_repeats(ids, owners, suspects, known)
        new = np.ones(len(ids), np.bool_)
        new[list(repeats)] = False
        self.store.prepare(hashes[new])
        self._open.update(compress(zip(ids, owners, strict=True), new.tolist()))
        return repeats

    def commit(self, *, output_position: int, input_offset: int, seen_ms: int) -> None:
        """Write what was admitted to the store, sorted: sorted inserts cost half of unsorted ones."""
        ids = np.frombuffer(b"".join(self._open), f"V{ID_BYTES}")
        owners = np.frombuffer(b"".join(self._open.values()), f"V{OWNER_BYTES}")
        order = np.argsort(ids.view(">u8")[::2])
        self.store.write(
            ids[order].tolist(),
            owners[order].tolist(),
            output_position=output_position,
            input_offset=input_offset,
            seen_ms=seen_ms,
        )
        self._open.clear()

    def abort(self) -> None:
        """Forget what was admitted and not committed; the prefilter may still suspect it, which does no harm."""
        self._open.clear()


def _repeated(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """For each hash whether it stands more than once in the batch."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    repeated = np.zeros(len(hashes), np.bool_)
    repeated[order[1:][same]] = True
    repeated[order[:-1][same]] = True
    return repeated
