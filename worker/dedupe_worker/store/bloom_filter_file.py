"""A generation's filter, saved so that an opening need not read every id.

    bytes 0-7     magic
    bytes 8-65    the generation's metadata when the filter was complete, see metadata.py
    bytes 66-69   number of slabs
    per slab      words (8 bytes), ids it still takes (8 bytes)
    per slab      its words (8 bytes each)
    last 4 bytes  CRC-32 of all before

All little-endian but the metadata. The file `<generation>.prefilter` is in the database's directory, where RocksDB
ignores names that are not its own. Checkpoints, snapshots and rebuilt stores don't contain it, so it is never used for
another store. Invariant: the filter is a cache. A file that is damaged, or has other metadata than the generation, is
ignored; nothing here raises, and nothing waits for the disk.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from dedupe_worker.store.bloom_filter import BloomFilter, Slab
from dedupe_worker.store.metadata import METADATA_BYTES, StoreMetadata, encode_metadata

SUFFIX: Final = ".prefilter"

_MAGIC: Final = b"DDFILT02"
_HEAD: Final = struct.Struct(f"<8s{METADATA_BYTES}sI")
_SLAB: Final = struct.Struct("<QQ")
_CRC: Final = struct.Struct("<I")


def save_bloom_filter(path: Path, bloom_filter: BloomFilter, metadata: StoreMetadata) -> bool:
    """Write the filter of all ids up to `metadata`, and replace the file at `path`.

    Returns False if that failed.
    """
    unfinished = path.with_name(path.name + ".tmp")
    head = _HEAD.pack(_MAGIC, encode_metadata(metadata), len(bloom_filter.slabs))
    head += b"".join(_SLAB.pack(slab.words.size, slab.room) for slab in bloom_filter.slabs)
    crc = zlib.crc32(head)
    try:
        with unfinished.open("wb") as file:
            file.write(head)
            for slab in bloom_filter.slabs:
                crc = zlib.crc32(slab.words.data, crc)
                file.write(slab.words.data)
            file.write(_CRC.pack(crc))
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        return False
    return True


def load_bloom_filter(path: Path, metadata: StoreMetadata, most_ids: int) -> BloomFilter | None:
    """Return the filter at `path` if it is complete and has this metadata, else None."""
    try:
        with path.open("rb") as file:
            return _read(file, encode_metadata(metadata), most_ids)
    except (OSError, struct.error):
        return None


def _read(file: BinaryIO, metadata: bytes, most_ids: int) -> BloomFilter | None:
    rest = os.fstat(file.fileno()).st_size - _HEAD.size - _CRC.size
    head = file.read(_HEAD.size)
    magic, of_metadata, count = _HEAD.unpack(head)
    if magic != _MAGIC or of_metadata != metadata or not 0 < count <= rest // _SLAB.size:
        return None
    sizes = file.read(_SLAB.size * count)
    shapes = list(_SLAB.iter_unpack(sizes))
    if sum(words for words, _ in shapes) * 8 != rest - len(sizes):
        return None
    crc = zlib.crc32(sizes, zlib.crc32(head))
    slabs = []
    for size, room in shapes:
        words = np.fromfile(file, np.uint64, size)
        crc = zlib.crc32(words.data, crc)
        slabs.append(Slab(words, room))
    return BloomFilter(most_ids=most_ids, slabs=slabs) if file.read() == _CRC.pack(crc) else None
