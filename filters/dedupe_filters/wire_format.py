"""Records of the topic <output>-filters: what is known of a range of offsets of the output's same partition.

A record's value is (integers big-endian)

     0   1   format: 1
     1   1   origin of the record, see Origin
     2   1   flags: bit 0 set if some of the range's records have no value
     3   1   k, the number of bits that each value sets; see bloom.py
     4   8   first offset of the range
    12   8   last offset of the range, included
    20   8   number of the range's records
    28   1   length t, and t bytes: the output topic's UUID as Kafka writes it, in ASCII
         2   length s, and s bytes: where the values were taken from, in UTF-8, see FilterSource
         …   the Bloom filter's bits, to the end

Its key is null, its timestamp the latest of the range's records, so that retention deletes both at about the same time.

A record is a claim that stands by itself: in the topic with this UUID, every record whose offset is in the range has a
value that the filter holds, or, with the flag, none. So claims may overlap, repeat and come in any order. Whoever can't
rely on a claim reads the range: one of another UUID (the output was deleted and made again), of another source
(the manifest was changed), of a later format; and one whose range holds more offsets than its writer has written,
unless the writer has read them all.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from dedupe_filters.bloom import MAX_HASHES, Bloom
from dedupe_filters.values import FilterSource

FORMAT: Final = 1

_HEAD: Final = struct.Struct(">BBBBqqqB")
_LENGTH: Final = struct.Struct(">H")
_SOME_WITHOUT: Final = 1
# A topic has few sources and many records, and a path is parsed in 50 us.
_source = lru_cache(maxsize=64)(FilterSource.parse)


class Origin(IntEnum):
    """How a range came to be known.

    APPENDED: its writer has appended the records; others may have appended between them.
    TRANSACTION: likewise, in one transaction of Kafka's that was committed together with this record, so that the
    transaction's marker follows the range.
    READ: the range was read, from end to end and after all transactions in it were decided. It may hold offsets without
    a record, and holds no record that was not seen.
    """

    APPENDED = 0
    TRANSACTION = 1
    READ = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFilter:
    """A filter for the records from `first_offset` to `last_offset`, both included, of one partition.

    `records` is how many there are, `unfiltered` whether some have no value, `topic_id` the output topic's UUID.
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
        """Whether the filter speaks for every record in its range, so that the range may be skipped by it."""
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
    """Read a record's value; None for what is not one, or one of a format that is not known here."""
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
    except (struct.error, ValueError):  # what is no text of its encoding is a ValueError, too
        return None
    # A filter without bits, or of which none is asked for, would match anything or fail.
    sound = bits and 1 <= hashes <= MAX_HASHES and 0 <= first <= last and records >= 0
    return chunk if sound else None
