"""The header by which a router names where a producer wrote a record.

    byte 0      version, 1
    1 to 2      partition, big-endian
    3 to 8      offset, big-endian
    from 9 on   name of the topic, ASCII

A router appends it, and the worker removes it again. Invariant: only the last header of a record is taken for it, so a
producer's header of this name survives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from dedupe_ids.batch import Header
from dedupe_ids.runs import offsets_of, runs_of
from dedupe_kafka.headers import headers_of_all
from dedupe_kafka.offsets import Place

HEADER: Final = "dedupe-origin"

_VERSION: Final = 1
_LAYOUT: Final = Struct(">BHHI")
_OFFSET_AT: Final = 3
_OFFSET_BYTES: Final = 6
_OFFSET_END: Final = _OFFSET_AT + _OFFSET_BYTES
_MOST_BYTES: Final = _OFFSET_END + 249  # as long as the name of a topic may be
_NONE: Final = -1
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


def encode_origins(records: Sequence[Message]) -> list[bytes]:
    """Return the value of the header for each record."""
    found: list[bytes] = []
    for (topic, partition), run in runs_of(records):
        # All values of a run are made at once.
        whole = encode_origin(topic, partition, 0)
        values = np.tile(np.frombuffer(whole, np.uint8), (len(run), 1))
        big_endian = offsets_of(run).astype(">u8").view(np.uint8).reshape(-1, 8)
        values[:, _OFFSET_AT:_OFFSET_END] = big_endian[:, 8 - _OFFSET_BYTES :]
        found += values.view(f"V{len(whole)}").ravel().tolist()
    return found


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


class BatchOrigins(NamedTuple):
    """The places where producers wrote the n records of a batch.

    The place of each is `places[which]`, of shape (n,); -1 is a record that came through no router. `offsets` (n,) are
    those there.
    """

    places: list[Place]
    which: NDArray[np.intp]
    offsets: NDArray[np.uint64]


def strip_origins(records: Sequence[Message]) -> BatchOrigins:
    """Take the origins off records, which are then as their producers wrote them."""
    headers = headers_of_all(records)
    values = [each[-1][1] or b"" if each and each[-1][0] == HEADER else b"" for each in headers]
    width = max(_OFFSET_END, min(_MOST_BYTES, max(map(len, values), default=0)))
    heads = np.array(values, f"S{width}")
    grid = heads.view(np.uint8).reshape(-1, width)
    offsets = np.zeros((len(values), 8), np.uint8)
    offsets[:, 8 - _OFFSET_BYTES :] = grid[:, _OFFSET_AT:_OFFSET_END]
    grid[:, _OFFSET_AT:_OFFSET_END] = 0
    places, which = _places_of(heads, values)
    for record, left in compress(zip(records, headers, strict=True), (which >= 0).tolist()):
        assert left is not None  # noqa: S101 (for the type checker: the place is from its last header)
        left.pop()  # the record's own list
        if not left:
            record.set_headers(None)  # type: ignore[arg-type] # as it was without a header
    return BatchOrigins(places, which, offsets.view(">u8").ravel().astype(np.uint64))


def _places_of(
    heads: NDArray[np.bytes_], values: Sequence[bytes]
) -> tuple[list[Place], NDArray[np.intp]]:
    """Return the places, and the position there of each record's: shape (n,).

    `heads` (n,) are the values without their offsets: few differ, and neighbours mostly do not.
    """
    begins = np.ones(len(heads), np.bool_)
    begins[1:] = heads[1:] != heads[:-1]
    starts = np.flatnonzero(begins)
    places: list[Place] = []
    found: dict[bytes, int] = {}
    which = []
    for head, start in zip(heads[starts].tolist(), starts.tolist(), strict=True):
        if head not in found:
            origin = decode_origin(values[start])
            found[head] = _NONE if origin is None else len(places)
            places += [(origin.topic, origin.partition)] if origin else []
        which.append(found[head])
    lengths = np.diff(starts, append=len(heads))
    return places, np.repeat(np.array(which, np.intp), lengths)


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
