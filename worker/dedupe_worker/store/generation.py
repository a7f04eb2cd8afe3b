"""One generation with its column family, and with the filter ahead of it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rocksdict import Rdict

from dedupe_ids.extract import ID_BYTES
from dedupe_worker.store.ageing import Generation
from dedupe_worker.store.bloom_filter import Hashes, Prefilter, hash_ids
from dedupe_worker.store.bloom_filter_file import save_prefilter
from dedupe_worker.store.metadata import Stamp

_REFILL_KEYS: Final = 5_000  # some 3 ms


@dataclass(slots=True)
class OpenGeneration:
    """A generation with its column family. `stamp` is None until the first ids are written.

    `unread` is the key from which on ids still have to be read into the filter; None: the filter has them all.
    `kept`: the filter as it is lies at `filter_path`. `sealed`: it is not the newest, so no id comes but by `amend`.
    """

    name: str
    family: Rdict
    prefilter: Prefilter
    stamp: Stamp | None
    filter_path: Path
    unread: bytes | None = None
    kept: bool = False
    sealed: bool = False

    def describe(self) -> Generation:
        """What the ageing goes by; a filter's bytes stand for those of its file."""
        size = self.family.property_int_value("rocksdb.total-sst-files-size") or 0
        in_memory = self.family.property_int_value("rocksdb.cur-size-all-mem-tables") or 0
        stamp = self.stamp
        return Generation(
            name=self.name,
            keys=stamp.keys if stamp else 0,
            size_bytes=size + (in_memory + self.prefilter.nbytes if stamp else 0),
            first_seen_ms=stamp.first_seen_ms if stamp else 0,
            last_seen_ms=stamp.last_seen_ms if stamp else 0,
        )

    def may_contain(self, hashes: Hashes) -> NDArray[np.bool_]:
        """For each hash: False if its id is certainly not in this generation."""
        if self.unread is not None:
            return np.ones(len(hashes), np.bool_)
        return self.prefilter.may_contain(hashes)

    def read(self, deadline: float) -> None:
        """Read ids into the filter until it has them all or the monotonic clock is at `deadline`."""
        if self.unread is None:
            return
        for packed in packed_keys(self.family, self.unread, _REFILL_KEYS):
            self.prefilter.add(hash_ids(packed))
            self.unread = packed[-ID_BYTES:] + b"\0"
            if time.monotonic() >= deadline:
                return
        self.unread = None
        if self.sealed:
            self.finish_prefilter()

    def finish_prefilter(self) -> None:
        """Once it is sealed: as small as it can be, before a restart and after it, and left to the next opening."""
        self.prefilter.trim()
        self.keep_prefilter()

    def keep_prefilter(self) -> None:
        """Leave the filter to the next opening, if it has all ids."""
        if self.stamp and self.unread is None and not self.kept:
            self.kept = save_prefilter(self.filter_path, self.prefilter, self.stamp)

    def drop_prefilter(self) -> None:
        """Before ids are added that a filter on disk does not have."""
        if self.kept:
            self.filter_path.unlink(missing_ok=True)
            self.kept = False


def multi_get(family: Rdict, ids: list[bytes]) -> list[bytes | None]:
    """One batched read, which lets go of the GIL."""
    values: list[bytes | None] = family[ids]  # type: ignore[index,assignment] # the stub has no list[bytes]
    return values


def packed_keys(family: Rdict, start: bytes, at_once: int) -> Iterator[bytes]:
    """The ids of a generation from a key on, joined, some at a time. Raises what RocksDB does for a damaged file."""
    chunk: list[bytes] = []
    last = start
    for key in family.keys(from_key=start or None):
        last = key  # type: ignore[assignment] # in raw mode every key is bytes
        if len(last) == ID_BYTES:
            chunk.append(last)
        if len(chunk) == at_once:
            yield b"".join(chunk)
            chunk.clear()
    # At a damaged block the scan above ends as if nothing followed; a position behind its last key tells.
    rest = family.iter()
    try:
        rest.seek(last + b"\0")
        rest.status()
    finally:
        del rest  # an error's traceback would keep it, and it the files locked
    if chunk:
        yield b"".join(chunk)
