"""One open generation: its column family, and the Bloom filter in front of it.

`rocksdb.Store` holds them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rocksdict import Rdict

from dedupe_crds.deadline import Deadline
from dedupe_ids.extract import ID_BYTES
from dedupe_worker.store.ageing import Generation
from dedupe_worker.store.bloom_filter import BloomFilter, Hashes, hash_ids
from dedupe_worker.store.bloom_filter_file import save_bloom_filter
from dedupe_worker.store.metadata import StoreMetadata

_REFILL_KEYS: Final = 5_000  # some 3 ms


@dataclass(slots=True)
class OpenGeneration:
    """A generation with its column family.

    `metadata` is None before the first ids are written.

    `unread` is the key from which ids still have to be read into the filter; None: the filter has them all. `kept`: the
    filter as it is now is saved at `filter_path`. `sealed`: it is not the newest, so it only gets ids by `amend`.
    """

    name: str
    family: Rdict
    bloom_filter: BloomFilter
    metadata: StoreMetadata | None
    filter_path: Path
    unread: bytes | None = None
    kept: bool = False
    sealed: bool = False

    def describe(self) -> Generation:
        """Describe it for `plan_ageing`.

        The filter's size in memory is counted for its file.
        """
        size = self.family.property_int_value("rocksdb.total-sst-files-size") or 0
        in_memory = self.family.property_int_value("rocksdb.cur-size-all-mem-tables") or 0
        metadata = self.metadata
        return Generation(
            name=self.name,
            keys=metadata.keys if metadata else 0,
            size_bytes=size + (in_memory + self.bloom_filter.nbytes if metadata else 0),
            first_seen_ms=metadata.first_seen_ms if metadata else 0,
            last_seen_ms=metadata.last_seen_ms if metadata else 0,
        )

    def may_contain(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each hash False if its id is certainly not in this generation."""
        if self.unread is not None:
            return np.ones(len(hashes), np.bool_)
        return self.bloom_filter.may_contain(hashes)

    def read(self, deadline: Deadline) -> None:
        """Read ids into the filter until it has them all or the deadline expires."""
        if self.unread is None:
            return
        for packed in packed_keys(self.family, self.unread, _REFILL_KEYS):
            self.bloom_filter.add(hash_ids(packed))
            self.unread = packed[-ID_BYTES:] + b"\0"
            if deadline.expired:
                return
        self.unread = None
        if self.sealed:
            self.finish_bloom_filter()

    def finish_bloom_filter(self) -> None:
        """Shrink the filter of a sealed generation, and save it for the next opening."""
        self.bloom_filter.trim()
        self.keep_bloom_filter()

    def keep_bloom_filter(self) -> None:
        """Save the filter for the next opening, if it has all ids."""
        if self.metadata and self.unread is None and not self.kept:
            self.kept = save_bloom_filter(self.filter_path, self.bloom_filter, self.metadata)

    def drop_bloom_filter(self) -> None:
        """Delete the saved filter, before ids are added that it does not have."""
        if self.kept:
            self.filter_path.unlink(missing_ok=True)
            self.kept = False


def multi_get(family: Rdict, ids: list[bytes]) -> list[bytes | None]:
    """Read many keys in one call, which releases the GIL."""
    values: list[bytes | None] = family[ids]  # type: ignore[index,assignment] # the stub has no list[bytes]
    return values


def lookup_values(
    generations: Sequence[OpenGeneration], ids: Sequence[bytes], hashes: Hashes
) -> dict[bytes, bytes]:
    """Return the values of the known ids, from the newest generation that has each.

    Generations are oldest first.
    """
    values: dict[bytes, bytes] = {}
    for generation in reversed(generations):
        rows = np.flatnonzero(generation.may_contain(hashes)).tolist()
        asked = [ids[row] for row in rows if ids[row] not in values]
        if asked:
            found = multi_get(generation.family, asked)
            values.update((i, v) for i, v in zip(asked, found, strict=True) if v)
    return values


def locate_values(
    generations: Sequence[OpenGeneration], ids: Sequence[bytes]
) -> dict[bytes, tuple[bytes, Generation]]:
    """Return the values of the known ids, each with its newest generation.

    The filters are not used.
    """
    found: dict[bytes, tuple[bytes, Generation]] = {}
    for generation in generations:
        values = multi_get(generation.family, list(ids))
        described = generation.describe()
        found.update((i, (v, described)) for i, v in zip(ids, values, strict=True) if v)
    return found


def packed_keys(family: Rdict, start: bytes, at_once: int) -> Iterator[bytes]:
    """Yield the ids of a generation from a key on, joined, some at a time.

    Raises what RocksDB raises for a damaged file.
    """
    chunk: list[bytes] = []
    last = start
    for key in family.keys(from_key=start or None):
        last = key  # type: ignore[assignment] # in raw mode every key is bytes
        if len(last) == ID_BYTES:
            chunk.append(last)
        if len(chunk) == at_once:
            yield b"".join(chunk)
            chunk.clear()
    # At a damaged block the scan above ends as if nothing followed; a seek behind its last key shows the error.
    rest = family.iter()
    try:
        rest.seek(last + b"\0")
        rest.status()
    finally:
        del rest  # an error's traceback would keep it, and it the files locked
    if chunk:
        yield b"".join(chunk)
