"""The header by which a router names where a producer wrote a record.

    byte 0      version, 1
    1 to 2      partition, big-endian
    3 to 8      offset, big-endian
    from 9 on   name of the topic, ASCII

A router appends it, and the worker removes it again. Invariant: only the last header of a record is taken for it, so a
producer's header of this name survives.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from confluent_kafka import Message

from dedupe_ids.batch import Header

HEADER: Final = "dedupe-origin"

_VERSION: Final = 1
_LAYOUT: Final = Struct(">BHHI")
_OFFSET_AT: Final = 3
_OFFSET_BYTES: Final = 6
_LOW_BITS: Final = 32
_LOW_MASK: Final = (1 << _LOW_BITS) - 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Topic, partition and offset at which a producer wrote a record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


def encode_origin(topic: str, partition: int, offset: int) -> bytes:
    """Return the value of the header.

    >>> encode_origin("orders", 3, 7)
    b'\\x01\\x00\\x03\\x00\\x00\\x00\\x00\\x00\\x07orders'
    """
    return (
        _LAYOUT.pack(_VERSION, partition, offset >> _LOW_BITS, offset & _LOW_MASK) + topic.encode()
    )


def encode_origins(records: Sequence[Message]) -> Iterator[bytes]:
    """Yield the value of the header for each record."""
    ends: dict[tuple[str | None, int | None], tuple[bytes, bytes]] = {}
    places = zip(map(Message.topic, records), map(Message.partition, records), strict=True)
    for place, offset in zip(places, map(Message.offset, records), strict=True):
        # Of a place they are made once: a batch has a hundred thousand records of a few places.
        if (both := ends.get(place)) is None:
            whole = encode_origin(place[0] or "", place[1] or 0, 0)
            both = ends[place] = whole[:_OFFSET_AT], whole[_LAYOUT.size :]
        yield both[0] + (offset or 0).to_bytes(_OFFSET_BYTES, "big") + both[1]


def decode_origin(value: bytes | str | None) -> Origin | None:
    """Return the origin in a header's value; None if that has another form."""
    raw = value.encode() if isinstance(value, str) else value
    if raw is None or len(raw) <= _LAYOUT.size:
        return None
    version, partition, high, low = _LAYOUT.unpack_from(raw)
    topic = raw[_LAYOUT.size :]
    if version != _VERSION or not topic.isascii():
        return None
    return Origin(topic.decode(), partition, (high << _LOW_BITS) | low)


def strip_origins(records: Iterable[Message]) -> None:
    """Take the origins off records, which are then as their producers wrote them."""
    for record in records:
        _, headers = take_origin(record.headers())  # type: ignore[arg-type] # of a consumer they are a list
        record.set_headers(headers)  # type: ignore[arg-type] # None is what a record without headers has


def take_origin(headers: Sequence[Header] | None) -> tuple[Origin | None, list[Header] | None]:
    """Return the origin that a router has appended, and the headers without it.

    A record that came without headers has None again.
    """
    if not headers:
        return None, None
    name, value = headers[-1]
    origin = decode_origin(value) if name == HEADER else None
    if origin is None:
        return None, list(headers)
    return origin, list(headers[:-1]) or None
