"""Position and times of a store, written in one batch with its ids.

`rocksdb` keeps one in each generation's column family, `inverse_bloom` one for each table in its manifest.

    byte  0        format, 2
    byte  1        flags: bit 0 = the window is shorter than configured (see `IdStore.mark_truncated`)
    bytes 2-9      output position: every record of the output partition before this offset is in the store
    bytes 10-17    input offset: the next input record after those
    bytes 18-25    number of ids written to this generation
    bytes 26-33    when its first id was seen, Unix milliseconds
    bytes 34-41    when its last id was seen, Unix milliseconds
    bytes 42-49    newest timestamp of a record whose id is in this generation, never later than it was seen
    bytes 50-57    newest such timestamp of the ids that the store dropped before, 0 if there is none

All big-endian, signed. The input offset is -1 where it is not known (ids read from the output topic). Format 1 ends
before the timestamps.

Further fields stand under the key `more`, written in the same batch. The release before ignores that key:

    bytes 0-57     the stamp that they were written with
    bytes 58 on    a JSON object; a field that is not there, or that this version does not know, is unknown

    lastRead       the last record read and the last written (`values.fingerprint`), for brokers without topic ids only
    lastWritten
    readUpTo       the offset after the last record that was read before the input offset, @, and its leader epoch
    inputTopic     id of the input topic that the input offset is of, and the owners of this generation's ids
    agedMs         the clock by which ids age (dedup/ageing_clock.py), Unix milliseconds
    agedFromMs     the same when the first ids were written to this generation
    agedToMs       the same when the last ids were written to it
    changes        how often ids were added to this generation, or removed from it, at a position that stayed
    ownOutput      ranges of the output after the position whose ids are in the store (`offset_ranges.py`): an open
                   transaction of another producer keeps the position before them
    origins        the numbers of the places in owners, behind routers only (origins.py)
    learnt         up to where ids of other outputs are in the store (learnt.py), of partitions that were added

A stamp that the release before wrote differs from the one above, so the further fields are unknown then, not stale.
"""

import json
import struct
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from dedupe_kafka.offsets import NOTHING_READ, LastRead
from dedupe_worker.errors import StoreCorrupt

METADATA_KEY: Final = b"stamp"
"""The key in a column family.

It has 5 bytes and an id has 16, so the two never collide.
"""

MORE_KEY: Final = b"more"
"""The key of the further fields; it has 4 bytes."""

_FORMAT: Final = 2
_LAYOUT: Final = struct.Struct(">BBqqqqqqq")
METADATA_BYTES: Final = _LAYOUT.size
_LAYOUTS: Final = {1: struct.Struct(">BBqqqqq"), _FORMAT: _LAYOUT}

_FURTHER: Final = {
    "readUpTo": "read_up_to",
    "inputTopic": "input_topic",
    "lastRead": "last_read",
    "lastWritten": "last_written",
    "agedMs": "aged_ms",
    "agedFromMs": "aged_from_ms",
    "agedToMs": "aged_to_ms",
    "changes": "changes",
    "ownOutput": "own_output",
    "origins": "origins",
    "learnt": "learnt",
}
"""The further fields: their names in JSON, and in `StoreMetadata`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMetadata:
    """The fields of the layouts above.

    A further field has a default, which stands for unknown.
    """

    output_position: int
    input_offset: int
    keys: int
    first_seen_ms: int
    last_seen_ms: int
    truncated: bool
    newest_ms: int = 0
    forgotten_ms: int = 0
    read_up_to: str = ""
    input_topic: str = ""
    last_read: str = ""
    last_written: str = ""
    aged_ms: int = 0
    aged_from_ms: int = 0
    aged_to_ms: int = 0
    changes: int = 0
    own_output: str = ""
    origins: str = ""
    learnt: str = ""

    def of_next_generation(self) -> "StoreMetadata":
        """Return the metadata of a generation without ids, whose predecessor has this."""
        return replace(
            self,
            keys=0,
            first_seen_ms=self.last_seen_ms,
            aged_from_ms=self.aged_to_ms,
            changes=0,
        )

    def of_new_input(self, input_topic: str) -> "StoreMetadata":
        """Return the metadata for another input topic, before its first record.

        What its retention deletes before the worker reads it counts as expired.
        """
        return replace(self, input_offset=0, input_topic=input_topic, last_read="", read_up_to="")

    def amended(self, *, added: int, removed: int) -> "StoreMetadata":
        """Return the metadata after ids were added and removed; the position stays."""
        keys = max(0, self.keys + added - removed)
        return replace(self, keys=keys, changes=self.changes + 1)


def ages(metadata: StoreMetadata) -> tuple[int, int]:
    """Return when the first and the last id were written.

    That is by the clock by which ids age. The release before has only the wall clock.
    """
    first_ms = metadata.aged_from_ms or metadata.first_seen_ms
    return first_ms, metadata.aged_to_ms or metadata.last_seen_ms


class LastRecords(NamedTuple):
    """Fingerprints of the last records read and written, empty if unknown.

    `read_up_to` is where the last record that was read ends.
    """

    read: str = ""
    written: str = ""
    read_up_to: LastRead = NOTHING_READ


NO_RECORDS: Final = LastRecords()


class KeptTexts(NamedTuple):
    """Texts that a store keeps: those of `origins.py` and `learnt.py`."""

    origins: str = ""
    learnt: str = ""


def next_metadata(
    before: StoreMetadata | None,
    latest: StoreMetadata | None,
    *,
    output_position: int,
    input_offset: int,
    added: int,
    seen_ms: int,
    newest_ms: int | None,
    input_topic: str,
    last: "LastRecords",
    aged_ms: int,
    own_output: str = "",
    kept: "KeptTexts | None" = None,
) -> StoreMetadata:
    """Return the metadata of a generation after ids were written to it.

    `before` is its metadata until now, `latest` the newest of the whole store. A `newest_ms` that is later than
    `seen_ms`, or unknown, counts as `seen_ms`: a producer whose clock is ahead must not move the window. `aged_ms` is
    the clock by which ids age. Other fields are those of `latest`.
    """
    newest_ms = seen_ms if newest_ms is None else min(newest_ms, seen_ms)
    first_ms, last_ms = ages(before) if before and before.keys else (aged_ms, aged_ms)
    return StoreMetadata(
        output_position=output_position,
        input_offset=input_offset,
        keys=(before.keys if before else 0) + added,
        first_seen_ms=before.first_seen_ms if before and before.keys else seen_ms,
        last_seen_ms=max(seen_ms, before.last_seen_ms if before else 0),
        truncated=bool(latest and latest.truncated),
        newest_ms=max(newest_ms, before.newest_ms if before else 0),
        forgotten_ms=latest.forgotten_ms if latest else 0,
        read_up_to=_read_up_to(latest, input_offset, last.read_up_to),
        input_topic=input_topic,
        last_read=last.read or (latest.last_read if latest else ""),
        last_written=last.written or (latest.last_written if latest else ""),
        aged_ms=max(aged_ms, latest.aged_ms if latest else 0),
        aged_from_ms=first_ms,
        aged_to_ms=max(aged_ms, last_ms),
        changes=before.changes if before else 0,
        own_output=own_output,
        origins=(kept.origins if kept else "") or (latest.origins if latest else ""),
        learnt=(kept.learnt if kept else "") or (latest.learnt if latest else ""),
    )


def _read_up_to(latest: StoreMetadata | None, input_offset: int, read: LastRead) -> str:
    """Return where the last record before the input offset ends, empty if unknown.

    A write at the same offset, such as of a catch-up, need not say so again.
    """
    if read.is_known:
        return f"{min(read.end, input_offset)}@{read.epoch}"
    return latest.read_up_to if latest and latest.input_offset == input_offset else ""


def last_read_of(metadata: StoreMetadata) -> LastRead:
    """Return the last record that was read before the input offset."""
    end, _, epoch = metadata.read_up_to.partition("@")
    return LastRead(int(end), int(epoch)) if epoch else NOTHING_READ


def encode_metadata(metadata: StoreMetadata) -> bytes:
    """Encode the stamp."""
    return _LAYOUT.pack(
        _FORMAT,
        metadata.truncated,
        metadata.output_position,
        metadata.input_offset,
        metadata.keys,
        metadata.first_seen_ms,
        metadata.last_seen_ms,
        metadata.newest_ms,
        metadata.forgotten_ms,
    )


def decode_metadata(value: bytes) -> StoreMetadata:
    """Decode a stamp; the further fields are unknown.

    Raises StoreCorrupt for another length or format.
    """
    layout = _LAYOUTS.get(value[0]) if value else None
    if layout is None or len(value) != layout.size:
        raise StoreCorrupt(
            f"the store's metadata is {value!r}, not format {_FORMAT}; the store is rebuilt from the output topic"
        )
    _, flags, output_position, input_offset, keys, first_seen_ms, last_seen_ms, *later = (
        layout.unpack(value)
    )
    # Format 1 has no timestamps: the time at which its last id was seen is the best bound.
    newest_ms, forgotten_ms = later or (last_seen_ms, 0)
    return StoreMetadata(
        output_position=output_position,
        input_offset=input_offset,
        keys=keys,
        first_seen_ms=first_seen_ms,
        last_seen_ms=last_seen_ms,
        truncated=bool(flags & 1),
        newest_ms=newest_ms,
        forgotten_ms=forgotten_ms,
    )


def further_fields(metadata: StoreMetadata) -> dict[str, Any]:
    """Return the further fields that are known, as JSON has them."""
    fields = {name: getattr(metadata, field) for name, field in _FURTHER.items()}
    return {name: value for name, value in fields.items() if value}


def with_further(metadata: StoreMetadata, fields: object) -> StoreMetadata:
    """Return the metadata with the further fields that JSON has."""
    if not isinstance(fields, dict):
        return metadata
    found: dict[str, Any] = {
        field: fields[name]
        for name, field in _FURTHER.items()
        if type(fields.get(name)) is type(getattr(metadata, field))
    }
    return replace(metadata, **found)


def encode_more(metadata: StoreMetadata) -> bytes:
    """Encode the further fields, with the stamp that they belong to."""
    fields = json.dumps(further_fields(metadata), separators=(",", ":"))
    return encode_metadata(metadata) + fields.encode()


def decode_both(stamp: bytes, more: bytes | None) -> StoreMetadata:
    """Decode a stamp with its further fields; unknown are those of another stamp.

    Raises StoreCorrupt for a stamp of another length or format.
    """
    metadata = decode_metadata(stamp)
    if more is None or more[:METADATA_BYTES] != stamp:
        return metadata
    try:
        return with_further(metadata, json.loads(more[METADATA_BYTES:]))
    except ValueError:
        return metadata
