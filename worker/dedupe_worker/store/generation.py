"""One open generation: its column family, and the Bloom filter in front of it.

`rocksdb.Store` holds them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
from dedupe_worker.store.read_threads import ReadThreads
from dedupe_worker.values import without_owner

_SCAN_KEYS: Final = 100_000
_REFILL_KEYS: Final = 5_000  # some 3 ms


@dataclass(slots=True)
class OpenGeneration:
    """A generation with its column family.

    `metadata` is None before the first ids are written.

    `unread` is the key from which ids still have to be read into the filter; None: the filter has them all. `kept`: the
    filter as it is now is saved at `filter_path`. `sealed`: it is not the newest, so it only gets ids by `amend`.
    `foreign`: its ids are of records of another input topic, so their owners are not known.
    """

    name: str
    family: Rdict
    bloom_filter: BloomFilter
    metadata: StoreMetadata | None
    filter_path: Path
    unread: bytes | None = None
    kept: bool = False
    sealed: bool = False
    foreign: bool = False

    @property
    def position(self) -> int | None:
        """Return the output position; None before the first write."""
        return self.metadata.output_position if self.metadata else None

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
            aged_from_ms=metadata.aged_from_ms or metadata.first_seen_ms if metadata else 0,
            aged_to_ms=metadata.aged_to_ms or metadata.last_seen_ms if metadata else 0,
        )

    def may_contain(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each hash False if its id is certainly not in this generation."""
        if self.unread is not None:
            return np.ones(len(hashes), np.bool_)
        return self.bloom_filter.may_contain(hashes)

    def values(self, ids: list[bytes]) -> list[bytes | None]:
        """Read the values of many ids; None for those that are not here."""
        found = multi_get(self.family, ids)
        return [value and without_owner(value) for value in found] if self.foreign else found

    def read(self, deadline: Deadline, report: Callable[[int], None] | None = None) -> None:
        """Read ids into the filter until it has them all or the deadline expires.

        `report` is called after each piece with the number of ids that were read.
        """
        if self.unread is None:
            return
        read = 0
        for packed in packed_keys(self.family, self.unread, _REFILL_KEYS):
            self.bloom_filter.add(hash_ids(packed))
            self.unread = packed[-ID_BYTES:] + b"\0"
            read += len(packed) // ID_BYTES
            if report:
                report(read)
            if deadline.expired:
                return
        self.unread = None
        if self.sealed:
            self.finish_bloom_filter(partial(report, read) if report else None)

    def finish_bloom_filter(self, report: Callable[[], None] | None = None) -> None:
        """Shrink the filter of a sealed generation, and save it for the next opening."""
        self.bloom_filter.trim()
        self.keep_bloom_filter(report)

    def keep_bloom_filter(self, report: Callable[[], None] | None = None) -> None:
        """Save the filter for the next opening, if it has all ids.

        `report` is called after each piece.
        """
        if self.metadata and self.unread is None and not self.kept:
            self.kept = save_bloom_filter(
                self.filter_path, self.bloom_filter, self.metadata, report=report
            )

    def drop_bloom_filter(self) -> None:
        """Delete the saved filter, before ids are added that it does not have."""
        if self.kept:
            self.filter_path.unlink(missing_ok=True)
            self.kept = False


def find_foreign(generations: Sequence[OpenGeneration], input_topic: str, unlabelled: str) -> None:
    """Find the generations of another input topic; they are oldest first.

    One that names no topic, from an earlier release, is of that of the next one that does, else of `unlabelled`: the
    store names a topic before another one begins.
    """
    topic = unlabelled
    for generation in reversed(generations):
        if generation.metadata:
            topic = generation.metadata.input_topic or topic
            generation.foreign = topic != input_topic


def named(generations: Sequence[OpenGeneration], name: str) -> OpenGeneration:
    """Return the generation of a name. Raises StopIteration if there is none."""
    return next(generation for generation in generations if generation.name == name)


def multi_get(family: Rdict, ids: list[bytes]) -> list[bytes | None]:
    """Read many keys in one call, which releases the GIL."""
    values: list[bytes | None] = family[ids]  # type: ignore[index,assignment] # the stub has no list[bytes]
    return values


def lookup_values(
    generations: Sequence[OpenGeneration],
    ids: Sequence[bytes],
    hashes: Hashes,
    threads: ReadThreads,
) -> dict[bytes, bytes]:
    """Return the values of the known ids, from the newest generation that has each.

    Generations are oldest first.
    """
    asked = []
    for generation in generations:
        rows = np.flatnonzero(generation.may_contain(hashes)).tolist()
        asked.append((generation.values, [ids[row] for row in rows]))
    return threads.read(asked)


def held_ids(generations: Sequence[OpenGeneration], ids: Sequence[bytes]) -> dict[str, list[bytes]]:
    """Return which of a few ids each generation holds, sorted; none without."""
    asked = sorted(set(ids))
    values = {g.name: multi_get(g.family, asked) for g in generations}
    held = {n: [i for i, v in zip(asked, found, strict=True) if v] for n, found in values.items()}
    return {name: each for name, each in held.items() if each}


def locate_values(
    generations: Sequence[OpenGeneration], ids: Sequence[bytes]
) -> dict[bytes, tuple[bytes, Generation]]:
    """Return the values of the known ids, each with its newest generation.

    The filters are not used.
    """
    found: dict[bytes, tuple[bytes, Generation]] = {}
    for generation in generations:
        values = generation.values(list(ids))
        described = generation.describe()
        found.update((i, (v, described)) for i, v in zip(ids, values, strict=True) if v)
    return found


def scan(family: Rdict) -> Iterator[bytes]:
    """Yield all ids of a generation, sorted and joined, some at a time."""
    return packed_keys(family, b"", _SCAN_KEYS)


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
