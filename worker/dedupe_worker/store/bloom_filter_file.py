"""A generation's filter kept beside the store's files, so that an opening need not read every id.

    bytes 0-7     magic
    bytes 8-65    the generation's stamp when the filter was complete, see stamp.py
    bytes 66-69   number of slabs
    per slab      words (8 bytes), ids it still takes (8 bytes)
    per slab      its words (8 bytes each)
    last 4 bytes  CRC-32 of all before

All little-endian but the stamp. `<generation>.prefilter` lies in the database's directory: RocksDB leaves names alone
that are not of its kind, and a checkpoint, a snapshot and a rebuilt store come without it, so it is never taken for
another store's. A file that is damaged, or of another stamp than the generation's, is as good as none: the filter is
a cache, so nothing here raises, and nothing waits for the disk.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from dedupe_worker.store.bloom_filter import Prefilter, Slab
from dedupe_worker.store.metadata import STAMP_BYTES, Stamp, encode_stamp

SUFFIX: Final = ".prefilter"

_MAGIC: Final = b"DDFILT02"
_HEAD: Final = struct.Struct(f"<8s{STAMP_BYTES}sI")
_SLAB: Final = struct.Struct("<QQ")
_CRC: Final = struct.Struct("<I")


def save_prefilter(path: Path, prefilter: Prefilter, stamp: Stamp) -> bool:
    """Write the filter of all ids up to `stamp`, in place of what is at `path`; False if that failed."""
    unfinished = path.with_name(path.name + ".tmp")
    head = _HEAD.pack(_MAGIC, encode_stamp(stamp), len(prefilter.slabs))
    head += b"".join(_SLAB.pack(slab.words.size, slab.room) for slab in prefilter.slabs)
    crc = zlib.crc32(head)
    try:
        with unfinished.open("wb") as file:
            file.write(head)
            for slab in prefilter.slabs:
                crc = zlib.crc32(slab.words.data, crc)
                file.write(slab.words.data)
            file.write(_CRC.pack(crc))
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        return False
    return True


def load_prefilter(path: Path, stamp: Stamp, most_ids: int) -> Prefilter | None:
    """The filter kept at `path` if it is whole and of this very stamp, else None."""
    try:
        with path.open("rb") as file:
            return _read(file, encode_stamp(stamp), most_ids)
    except (OSError, struct.error):
        return None


def _read(file: BinaryIO, stamp: bytes, most_ids: int) -> Prefilter | None:
    rest = os.fstat(file.fileno()).st_size - _HEAD.size - _CRC.size
    head = file.read(_HEAD.size)
    magic, of_stamp, count = _HEAD.unpack(head)
    if magic != _MAGIC or of_stamp != stamp or not 0 < count <= rest // _SLAB.size:
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
    return Prefilter(most_ids=most_ids, slabs=slabs) if file.read() == _CRC.pack(crc) else None
