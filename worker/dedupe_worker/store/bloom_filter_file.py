"""A generation's filter, saved so that an opening need not read every id.

    bytes 0-7     magic, DDFILT02 or DDFILT03
    8 bytes       only with DDFILT03: the generation's number of changes (metadata.py), at least 1
    58 bytes      the generation's metadata when the filter was complete, see metadata.py
    4 bytes       number of slabs
    per slab      words (8 bytes), ids it still takes (8 bytes)
    per slab      its words (8 bytes each)
    last 4 bytes  CRC-32 of all before

All little-endian but the metadata. The metadata alone would not show that ids were added and removed in equal numbers,
so the number of such changes is there too. A generation without changes has a file of the format before, and a release
that does not know the number ignores the other.

The file `<generation>.prefilter` is in the database's directory, where RocksDB ignores names that are not its own.
Checkpoints, snapshots and rebuilt stores don't contain it, so it is never used for another store. Invariant: the filter
is a cache. A file that is damaged, or has other metadata or changes than the generation, is ignored; nothing here
raises, and nothing waits for the disk.
"""

import os
import struct
import zlib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Final

import numpy as np

from dedupe_worker.store.bloom_filter import BloomFilter, Slab
from dedupe_worker.store.metadata import StoreMetadata, encode_metadata

SUFFIX: Final = ".prefilter"

_UNCHANGED: Final = b"DDFILT02"
_CHANGED: Final = struct.Struct("<8sQ")
_CHANGED_MAGIC: Final = b"DDFILT03"
_COUNT: Final = struct.Struct("<I")
_SLAB: Final = struct.Struct("<QQ")
_PIECE_WORDS: Final = 1 << 21
_CRC: Final = struct.Struct("<I")


def save_bloom_filter(
    path: Path,
    bloom_filter: BloomFilter,
    metadata: StoreMetadata,
    *,
    report: Callable[[], None] | None = None,
) -> bool:
    """Write the filter of all ids up to `metadata`, and replace the file at `path`.

    Returns False if that failed. `report` is called after each piece that was written.
    """
    unfinished = path.with_name(path.name + ".tmp")
    head = _content(metadata) + _COUNT.pack(len(bloom_filter.slabs))
    head += b"".join(_SLAB.pack(slab.words.size, slab.room) for slab in bloom_filter.slabs)
    crc = zlib.crc32(head)
    try:
        with unfinished.open("wb") as file:
            file.write(head)
            for slab in bloom_filter.slabs:
                for start in range(0, slab.words.size, _PIECE_WORDS):
                    piece = slab.words[start : start + _PIECE_WORDS].data
                    crc = zlib.crc32(piece, crc)
                    file.write(piece)
                    if report:
                        report()
            file.write(_CRC.pack(crc))
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        return False
    return True


def load_bloom_filter(
    path: Path,
    metadata: StoreMetadata,
    most_ids: int,
    *,
    report: Callable[[], None] = lambda: None,
) -> BloomFilter | None:
    """Return the filter at `path` if it is complete and has this metadata, else None.

    `report` is called after each piece that was read.
    """
    try:
        with path.open("rb") as file:
            return _read(file, _content(metadata), most_ids, report)
    except (OSError, struct.error):
        return None


def _content(metadata: StoreMetadata) -> bytes:
    """Return the begin of the file of a filter of all ids that this metadata is of."""
    if metadata.changes:
        return _CHANGED.pack(_CHANGED_MAGIC, metadata.changes) + encode_metadata(metadata)
    return _UNCHANGED + encode_metadata(metadata)


def _read(
    file: BufferedReader, content: bytes, most_ids: int, report: Callable[[], None]
) -> BloomFilter | None:
    rest = os.fstat(file.fileno()).st_size - len(content) - _COUNT.size - _CRC.size
    head = file.read(len(content) + _COUNT.size)
    [count] = _COUNT.unpack(head[len(content) :])
    if not head.startswith(content) or not 0 < count <= rest // _SLAB.size:
        return None
    sizes = file.read(_SLAB.size * count)
    shapes = list(_SLAB.iter_unpack(sizes))
    if sum(words for words, _ in shapes) * 8 != rest - len(sizes):
        return None
    crc = zlib.crc32(sizes, zlib.crc32(head))
    slabs = []
    for size, room in shapes:
        words = np.empty(size, np.uint64)
        for start in range(0, size, _PIECE_WORDS):
            piece = words[start : start + _PIECE_WORDS].data.cast("B")
            if file.readinto(piece) != len(piece):
                return None
            crc = zlib.crc32(piece, crc)
            report()
        slabs.append(Slab(words, room))
    return BloomFilter(most_ids=most_ids, slabs=slabs) if file.read() == _CRC.pack(crc) else None
