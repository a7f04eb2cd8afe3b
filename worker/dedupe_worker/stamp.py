"""What a generation says of itself, in its own column family.

    byte  0        format, 1
    byte  1        flags: bit 0 = the window is shorter than it should be (see `Store.mark_truncated`)
    bytes 2-9      output position: every record of the output partition before this offset is in the store
    bytes 10-17    input offset: the next input record after those
    bytes 18-25    ids written to this generation
    bytes 26-33    when its first id was seen, Unix milliseconds
    bytes 34-41    when its last id was seen, Unix milliseconds

All big-endian, signed. The input offset is -1 where it is not known (ids learnt from the output topic).
"""

import struct
from dataclasses import dataclass
from typing import Final

from dedupe_worker.errors import StoreCorrupt

STAMP_KEY: Final = b"stamp"

_FORMAT: Final = 1
_LAYOUT: Final = struct.Struct(">BBqqqqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """See the layout above."""

    output_position: int
    input_offset: int
    keys: int
    first_seen_ms: int
    last_seen_ms: int
    truncated: bool


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
    )


def decode_stamp(value: bytes) -> Stamp:
    """From bytes. Raises StoreCorrupt for another length or format."""
    if len(value) != _LAYOUT.size or value[0] != _FORMAT:
        raise StoreCorrupt(
            f"the store's stamp is {value!r}, not format {_FORMAT}; it is rebuilt from the output topic"
        )
    _, flags, output_position, input_offset, keys, first_seen_ms, last_seen_ms = _LAYOUT.unpack(
        value
    )
    return Stamp(
        output_position=output_position,
        input_offset=input_offset,
        keys=keys,
        first_seen_ms=first_seen_ms,
        last_seen_ms=last_seen_ms,
        truncated=bool(flags & 1),
    )
