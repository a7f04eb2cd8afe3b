"""The wire format of the topic <output>-filters: one record is one filter.

A filter describes an offset range of the output's same partition. The builder encodes it, the index decodes it.

A record's value is (integers big-endian)

     0   1   format: 1
     1   1   origin of the record, see Origin
     2   1   flags: bit 0 is set if some of the range's records have no value
     3   1   k, the number of bits that each value sets; see bloom.py
     4   8   first offset of the range
    12   8   last offset of the range, included
    20   8   number of the range's records
    28   1   length t, and t bytes: the output topic's UUID as Kafka writes it, in ASCII
         2   length s, and s bytes: the source of the values, in UTF-8, see FilterSource
         …   the Bloom filter's bits, to the end

The key of a transaction's filter is the transactional id of its producer; other filters have none. The timestamp is
the of the range's records, so that retention deletes both at about the same time.

A record is an independent claim: in the topic with this UUID, every record whose offset is in the range has a value in
the filter, or, with the flag, no value. So claims may overlap, repeat and come in any order. A reader ignores a claim,
and reads the range, if the claim has another UUID (the output was deleted and created again), another source (the
manifest was changed) or a later format, or if its range holds more offsets than its writer has written, unless the
writer has read them all.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from dedupe_filters.bloom import MAX_HASHES, Bloom
from dedupe_filters.values import FilterSource

FORMAT: Final = 1

# No log reaches it. Beyond it the arithmetic of readers would leave 64 bits.
_MAX_OFFSET: Final = (1 << 62) - 1
_HEAD: Final = struct.Struct(">BBBBqqqB")
_LENGTH: Final = struct.Struct(">H")
_SOME_WITHOUT: Final = 1
# A topic has few sources and many records, and a path is parsed in 50 us.
_source = lru_cache(maxsize=64)(FilterSource.parse)


class Origin(IntEnum):
    """The origin of a filter's range.

    APPENDED: the writer appended the records; other producers may have appended between them.
    TRANSACTION: likewise, in one Kafka transaction that was committed together with this record, so that the
    transaction marker follows the range.
    READ: the writer read the whole range after all transactions in it had ended. The range may hold offsets without a
    record, and no record that the writer did not read.
    """

    APPENDED = 0
    TRANSACTION = 1
    READ = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFilter:
    """A filter for one partition's records from `first_offset` to `last_offset`.

    Both are included. `records` is their number, `unfiltered` whether some have no value, `topic_id` the output
    topic's UUID.
    """

    topic_id: str
    source: FilterSource
    origin: Origin
    first_offset: int
    last_offset: int
    records: int
    unfiltered: bool
    bloom: Bloom

    @property
    def is_whole(self) -> bool:
        """Return whether the filter covers every record in its range.

        Only then may a reader skip the range.
        """
        return (
            self.origin is Origin.READ or self.records == self.last_offset - self.first_offset + 1
        )


def encode(chunk: ChunkFilter) -> bytes:
    """Return the record's value."""
    topic_id, source = chunk.topic_id.encode("ascii"), str(chunk.source).encode()
    return b"".join(
        (
            _HEAD.pack(
                FORMAT,
                chunk.origin,
                _SOME_WITHOUT if chunk.unfiltered else 0,
                chunk.bloom.hashes,
                chunk.first_offset,
                chunk.last_offset,
                chunk.records,
                len(topic_id),
            ),
            topic_id,
            _LENGTH.pack(len(source)),
            source,
            chunk.bloom.bits,
        )
    )


def decode(value: bytes | None) -> ChunkFilter | None:
    """Decode a record's value; return None for an invalid one or an unknown format."""
    if not value or value[0] != FORMAT:
        return None
    try:
        _, origin, flags, hashes, first, last, records, length = _HEAD.unpack_from(value)
        at = _HEAD.size + length
        topic_id = value[_HEAD.size : at].decode("ascii")
        (length,) = _LENGTH.unpack_from(value, at)
        at += _LENGTH.size
        source = _source(value[at : at + length].decode())
        bits = value[at + length :]
        chunk = ChunkFilter(
            topic_id=topic_id,
            source=source,
            origin=Origin(origin),
            first_offset=first,
            last_offset=last,
            records=records,
            unfiltered=bool(flags & _SOME_WITHOUT),
            bloom=Bloom(hashes, bits),
        )
    except (struct.error, ValueError):  # a decoding error of text is a ValueError
        return None
    # A filter without bits or without hashes would match anything, or fail.
    sound = bits and 1 <= hashes <= MAX_HASHES and 0 <= first <= last <= _MAX_OFFSET
    return chunk if sound and records >= 0 else None
