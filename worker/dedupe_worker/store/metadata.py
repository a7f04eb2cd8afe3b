"""What a generation says of itself, in its own column family.

    byte  0        format, 2
    byte  1        flags: bit 0 = the window is shorter than it should be (see `Store.mark_truncated`)
    bytes 2-9      output position: every record of the output partition before this offset is in the store
    bytes 10-17    input offset: the next input record after those
    bytes 18-25    ids written to this generation
    bytes 26-33    when its first id was seen, Unix milliseconds
    bytes 34-41    when its last id was seen, Unix milliseconds
    bytes 42-49    newest timestamp of a record whose id is in this generation, at most when it was seen
    bytes 50-57    newest such timestamp of what the store has forgotten before it, 0 if nothing

All big-endian, signed. The input offset is -1 where it is not known (ids learnt from the output topic). Format 1 ends
before the timestamps.
"""

import struct
from dataclasses import dataclass
from typing import Final

from dedupe_worker.errors import StoreCorrupt

STAMP_KEY: Final = b"stamp"

_FORMAT: Final = 2
_LAYOUT: Final = struct.Struct(">BBqqqqqqq")
STAMP_BYTES: Final = _LAYOUT.size
_LAYOUTS: Final = {1: struct.Struct(">BBqqqqq"), _FORMAT: _LAYOUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """See the layout above."""

    output_position: int
    input_offset: int
    keys: int
    first_seen_ms: int
    last_seen_ms: int
    truncated: bool
    newest_ms: int = 0
    forgotten_ms: int = 0


def encode_stamp(stamp: Stamp) -> bytes:
    """To bytes."""
    return _LAYOUT.pack(
        _FORMAT,
        stamp.truncated,
        stamp.output_position,
        stamp.input_offset,
        stamp.keys,
        stamp.first_seen_ms,
        stamp.last_seen_ms,
        stamp.newest_ms,
        stamp.forgotten_ms,
    )


def decode_stamp(value: bytes) -> Stamp:
    """From bytes. Raises StoreCorrupt for another length or format."""
    layout = _LAYOUTS.get(value[0]) if value else None
    if layout is None or len(value) != layout.size:
        raise StoreCorrupt(
            f"the store's stamp is {value!r}, not format {_FORMAT}; it is rebuilt from the output topic"
        )
    _, flags, output_position, input_offset, keys, first_seen_ms, last_seen_ms, *later = (
        layout.unpack(value)
    )
    # Before there were timestamps: what is dropped next was seen last then.
    newest_ms, forgotten_ms = later or (last_seen_ms, 0)
    return Stamp(
        output_position=output_position,
        input_offset=input_offset,
        keys=keys,
        first_seen_ms=first_seen_ms,
        last_seen_ms=last_seen_ms,
        truncated=bool(flags & 1),
        newest_ms=newest_ms,
        forgotten_ms=forgotten_ms,
    )
