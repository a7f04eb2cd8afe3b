"""The header that tells where a routed record comes from.

A router appends it to each record that it copies, always as the last one. Its value is

    version    1 byte, 1
    partition  2 bytes, big-endian
    offset     6 bytes, big-endian
    topic      the rest, ASCII

Invariant: what a producer has sent survives, also a header of the same name. So only the last header is ever taken
away, and only if it is valid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from dedupe_ids.batch import Header

ORIGIN_HEADER: Final = "dedupe-origin"

_VERSION: Final = 1
_HEAD: Final = Struct(
    ">BHHI"
)  # the offset as its upper 2 and lower 4 bytes: there is no format for 6
_LOWER: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Origin:
    """The place in the input from which a record was routed."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


def encode_origin(topic: str, partition: int, offset: int) -> bytes:
    """Return the header's value.

    Raises struct.error for a partition of more than 2 bytes or an offset of more than 6, UnicodeEncodeError for a topic
    that is not ASCII.

    >>> decode_origin(encode_origin("orders", 3, 1234))
    Origin(topic='orders', partition=3, offset=1234)
    """
    return _HEAD.pack(_VERSION, partition, offset >> 32, offset & _LOWER) + topic.encode("ascii")


def decode_origin(value: bytes | str | None) -> Origin | None:
    """Return the origin in a header's value; None if it is no valid one."""
    raw = value.encode() if isinstance(value, str) else value
    if raw is None or len(raw) <= _HEAD.size or raw[0] != _VERSION:
        return None
    _, partition, upper, lower = _HEAD.unpack_from(raw)
    try:
        topic = raw[_HEAD.size :].decode("ascii")
    except UnicodeDecodeError:
        return None
    return Origin(topic, partition, upper << 32 | lower)


def take_origin(headers: Sequence[Header] | None) -> tuple[Origin | None, list[Header] | None]:
    """Return a record's origin, and its headers without that of the origin.

    No headers are None, as for a record that came without.
    """
    if not headers:
        return None, None
    name, value = headers[-1]
    origin = decode_origin(value) if name == ORIGIN_HEADER else None
    kept = list(headers if origin is None else headers[:-1])
    return origin, kept or None


def header_bytes(topic: str) -> int:
    """Return how many bytes at most the header adds to a record, uncompressed.

    In Kafka's record format a header is the length of its name, the name, the length of its value, and the value. Each
    length is a varint: 1 byte up to 63, 2 up to 8,191. A topic's name has at most 249 characters, so the value's length
    takes 2 bytes at most. Two varints may take one more byte each: the count of headers, which grows by one, and the
    record's length, which grows by less than the 8,128 that a second byte would need.
    """
    lengths = 1 + 2
    grown = 1 + 1
    return lengths + len(ORIGIN_HEADER) + _HEAD.size + len(topic) + grown
