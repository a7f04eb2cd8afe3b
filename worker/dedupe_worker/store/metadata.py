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
"""

import struct
from dataclasses import dataclass, replace
from typing import Final

from dedupe_worker.errors import StoreCorrupt

METADATA_KEY: Final = b"stamp"
"""The key in a column family.

It has 5 bytes and an id has 16, so the two never collide.
"""

_FORMAT: Final = 2
_LAYOUT: Final = struct.Struct(">BBqqqqqqq")
METADATA_BYTES: Final = _LAYOUT.size
_LAYOUTS: Final = {1: struct.Struct(">BBqqqqq"), _FORMAT: _LAYOUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMetadata:
    """The fields of the layout above."""

    output_position: int
    input_offset: int
    keys: int
    first_seen_ms: int
    last_seen_ms: int
    truncated: bool
    newest_ms: int = 0
    forgotten_ms: int = 0

    def amended(self, *, added: int, removed: int) -> "StoreMetadata":
        """Return the metadata after ids were added and removed; the position stays."""
        return replace(self, keys=max(0, self.keys + added - removed))


def next_metadata(
    before: StoreMetadata | None,
    latest: StoreMetadata | None,
    *,
    output_position: int,
    input_offset: int,
    added: int,
    seen_ms: int,
    newest_ms: int | None,
) -> StoreMetadata:
    """Return the metadata of a generation after ids were written to it.

    `before` is its metadata until now, `latest` the newest of the whole store. A `newest_ms` that is later than
    `seen_ms`, or unknown, counts as `seen_ms`: a producer whose clock is ahead must not move the window.
    """
    newest_ms = seen_ms if newest_ms is None else min(newest_ms, seen_ms)
    return StoreMetadata(
        output_position=output_position,
        input_offset=input_offset,
        keys=(before.keys if before else 0) + added,
        first_seen_ms=before.first_seen_ms if before and before.keys else seen_ms,
        last_seen_ms=max(seen_ms, before.last_seen_ms if before else 0),
        truncated=bool(latest and latest.truncated),
        newest_ms=max(newest_ms, before.newest_ms if before else 0),
        forgotten_ms=latest.forgotten_ms if latest else 0,
    )


def encode_metadata(metadata: StoreMetadata) -> bytes:
    """Encode to the layout above."""
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
    """Decode the layout above. Raises StoreCorrupt for another length or format."""
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
