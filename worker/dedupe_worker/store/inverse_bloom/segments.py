"""Tables on disk: immutable segments of a fixed number of slots, and a manifest.

`table_state` and `flush` read and write them.

    tables.json                        the manifest: a line with the CRC-32 of the rest, in hexadecimal; `StoreRecord`
    more.json                          the same for the further fields of stamps (metadata.py); `FurtherRecord`
    t<table>-<segment>-<serial>.seg    slots `segment` * 524288 and following of a table; `serial` makes the name new

    a segment:  bytes 0-7    magic
                bytes 8-39   table, segment, slots, bytes of a value; 8 bytes each, little-endian
                             the ids, 16 bytes each, then the values
                last 4       CRC-32 of all before, little-endian

Invariant: a segment is written and synced under a new name; it is valid when a manifest names it, which is replaced as
a whole. So a crash leaves the previous set, and files that no manifest names, which the next opening deletes.
Checkpoints link to segments, and a bucket stores each content once. The release before refuses a manifest with a field
that it does not know, and ignores a file that it does not know: so further fields are in a separate file, which is
written before the manifest with the fields of both manifests, and found by a table's number and stamp.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from dedupe_worker.errors import StoreCorrupt
from dedupe_worker.store.inverse_bloom.retention import Mark
from dedupe_worker.store.inverse_bloom.table import Slots, Table
from dedupe_worker.store.state_dir import fsync, write_atomically

MANIFEST: Final = "tables.json"
MORE: Final = "more.json"
SUFFIX: Final = ".seg"
SEGMENT_SLOTS: Final = 1 << 19
"""Slots of a segment; part of the format.

It is 12 MiB with values of 8 bytes: some 30 ms to write, short enough between transactions.
"""

_FORMAT: Final = 1
_MAGIC: Final = b"DDIBSEG1"
_HEAD: Final = struct.Struct("<8sQQQQ")
_CRC: Final = struct.Struct("<I")


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class SegmentRecord(_Record):
    """A file, and the CRC-32 at its end.

    So a file that is complete, but of another time, is not accepted either.
    """

    file: str
    crc: int


class TableRecord(_Record):
    """One table. `stamp` is in the store's own encoding (metadata.py), in hexadecimal.

    None before the first write. `segments` has None for those that were never written to.
    """

    number: int
    slots: int
    value_bytes: int
    puts: int
    stamp: str | None
    marks: list[Mark]
    segments: list[SegmentRecord | None]


class StoreRecord(_Record):
    """The manifest. Tables are oldest first.

    Segments are of different times: each table's `stamp` says up to where all of them are complete, and `reach` is the
    end of the output records that the ids are from.
    """

    format: int = _FORMAT
    serial: int
    reach: int
    tables: list[TableRecord]

    @property
    def files(self) -> set[str]:
        """Return the names of all segments."""
        return {each.file for table in self.tables for each in table.segments if each}


FurtherRecord: TypeAlias = dict[str, dict[str, Any]]
"""The further fields of stamps, by `further_key`."""

_FURTHER: Final = TypeAdapter(FurtherRecord)


def further_key(record: TableRecord) -> str:
    """Return the key of a table's further fields: its number and its stamp."""
    return f"{record.number} {record.stamp}"


def segments_of(slots: int) -> int:
    """Return how many segments a table has.

    >>> segments_of(SEGMENT_SLOTS), segments_of(SEGMENT_SLOTS + 1)
    (1, 2)
    """
    return -(-slots // SEGMENT_SLOTS)


def segment_of(slots: Slots) -> Slots:
    """Return the segment of each slot."""
    segments: Slots = slots // SEGMENT_SLOTS
    return segments


def load_manifest(directory: Path) -> StoreRecord | None:
    """Return the manifest; None if there is none. Raises StoreCorrupt or OSError."""
    text = _read_checked(directory / MANIFEST)
    if text is None:
        return None
    try:
        record = StoreRecord.model_validate_json(text)
    except ValidationError as error:
        raise _damaged(directory / MANIFEST, str(error)) from error
    if record.format != _FORMAT:
        raise _damaged(
            directory / MANIFEST, f"format {record.format}; this version reads {_FORMAT}"
        )
    return record


def save_manifest(directory: Path, record: StoreRecord) -> None:
    """Write the manifest, all or nothing. Raises DiskFull or OSError."""
    _write_checked(directory / MANIFEST, record.model_dump_json(by_alias=True))


def load_further(directory: Path) -> FurtherRecord:
    """Return the further fields; none if the file is absent or damaged.

    Raises OSError.
    """
    try:
        return _FURTHER.validate_json(_read_checked(directory / MORE) or b"{}")
    except (StoreCorrupt, ValidationError):
        return {}


def save_further(directory: Path, record: FurtherRecord) -> None:
    """Write the further fields, all or nothing. Raises DiskFull or OSError."""
    _write_checked(directory / MORE, _FURTHER.dump_json(record).decode())


def _read_checked(path: Path) -> bytes | None:
    try:
        crc, _, text = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    try:
        right = int(crc, 16) == zlib.crc32(text)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not right:
        raise _damaged(path, "its checksum is wrong")
    return text


def _write_checked(path: Path, text: str) -> None:
    write_atomically(path, f"{zlib.crc32(text.encode()):08x}\n{text}")


def save_segment(
    directory: Path, table: Table, *, number: int, segment: int, serial: int
) -> SegmentRecord:
    """Write and sync one segment of table `number`, under a new name.

    Raises OSError, and leaves nothing then.
    """
    ids, values = _slices(table, segment)
    head = _HEAD.pack(_MAGIC, number, segment, len(values), table.value_bytes)
    crc = zlib.crc32(values, zlib.crc32(ids, zlib.crc32(head)))
    path = directory / f"t{number:08d}-{segment:05d}-{serial:010d}{SUFFIX}"
    try:
        with path.open("wb", buffering=0) as file:
            for part in (head, ids, values, _CRC.pack(crc)):
                _write_all(file.fileno(), part)
            fsync(file.fileno(), path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return SegmentRecord(file=path.name, crc=crc)


def load_segment(
    directory: Path, table: Table, record: SegmentRecord, *, number: int, segment: int
) -> None:
    """Read one segment into a table.

    Raises StoreCorrupt if it is not what was written, or OSError.
    """
    path = directory / record.file
    ids, values = _slices(table, segment)
    wanted = _HEAD.pack(_MAGIC, number, segment, len(values), table.value_bytes)
    with path.open("rb", buffering=0) as file:
        head = file.read(_HEAD.size)
        read = file.readinto(ids) + file.readinto(values)
        tail = file.read(_CRC.size + 1)
    crc = zlib.crc32(values, zlib.crc32(ids, zlib.crc32(head)))
    if head != wanted or read != len(ids) + len(values) or tail != _CRC.pack(crc):
        raise _damaged(path, "its checksum is wrong, or it is not whole")
    if crc != record.crc:
        raise _damaged(path, "it is of another time than the manifest")


def delete_others(directory: Path, kept: Iterable[str]) -> None:
    """Delete the segments that are not among `kept`. Raises OSError."""
    wanted = set(kept)
    for path in directory.glob(f"*{SUFFIX}"):
        if path.name not in wanted:
            path.unlink()


def _slices(table: Table, segment: int) -> tuple[memoryview, memoryview]:
    """Return the bytes of a segment's ids and values in memory."""
    here = slice(segment * SEGMENT_SLOTS, (segment + 1) * SEGMENT_SLOTS)
    ids, values = table.ids[here], table.values[here]
    return ids.view("B").reshape(-1).data, values.view("B").reshape(-1).data


def _write_all(descriptor: int, part: bytes | memoryview) -> None:
    rest = memoryview(part)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _damaged(path: Path, why: str) -> StoreCorrupt:
    return StoreCorrupt(f"reading {path}: {why}; the store is rebuilt from the output topic")
