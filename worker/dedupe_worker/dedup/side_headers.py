"""The headers that the worker adds to the records that it routes to side topics.

`make_verdict` calls it for all of a batch at once: a step of Python for each header would cost as much as to pass a
record on.
"""

from itertools import repeat
from typing import Final

import numpy as np

from dedupe_ids.batch import Header
from dedupe_worker.origins import Origins
from dedupe_worker.values import OFFSET_BITS, UNKNOWN_OWNER, Decoded

ORIGINAL_HEADER: Final = "dedupe-original"
"""Partition and offset of the record that this one repeats or contradicts: `3:1207`, or `unknown`.

Behind routers its topic comes first: `orders:3:1207`."""
AGE_HEADER: Final = "dedupe-age-ms"
"""This record's timestamp minus the original record's, in milliseconds; absent if one of
them is not known: the original's is not stored, or six bytes cannot hold it."""
POSITION_HEADER: Final = "dedupe-position"
"""Partition and offset of this record; behind routers its topic comes first."""
LATE_HEADER: Final = "dedupe-late"
"""The bound that made this record late, Unix milliseconds: its timestamp is before it. Ids are remembered only of
records from this time on, or `late.maxAge` sets it."""

_UNKNOWN: Final = int.from_bytes(UNKNOWN_OWNER)
_OFFSET_MASK: Final = np.uint64((1 << OFFSET_BITS) - 1)


def repeat_headers(
    own: Decoded, original: Decoded, origins: Origins | None
) -> list[tuple[Header, ...]]:
    """Return what is added to each record that repeats another one."""
    ages = [b"%d" % age for age in (own.times - original.times).tolist()]
    headers: list[tuple[Header, ...]] = list(
        zip(
            zip(repeat(ORIGINAL_HEADER), _positions(original, origins), strict=False),
            zip(repeat(POSITION_HEADER), _positions(own, origins), strict=False),
            zip(repeat(AGE_HEADER), ages, strict=False),
            strict=True,
        )
    )
    for row in np.flatnonzero(~(own.timed & original.timed)).tolist():
        headers[row] = headers[row][:-1]
    return headers


def late_headers(own: Decoded, bound: int, origins: Origins | None) -> list[tuple[Header, ...]]:
    """Return what is added to each record that is late."""
    late = LATE_HEADER, b"%d" % bound
    return [(late, (POSITION_HEADER, position)) for position in _positions(own, origins)]


def _positions(values: Decoded, origins: Origins | None) -> list[bytes]:
    numbers = (values.owners >> np.uint64(OFFSET_BITS)).tolist()
    names = {number: _name(number, origins) for number in set(numbers)}
    offsets = (values.owners & _OFFSET_MASK).tolist()
    places = [names[number] for number in numbers]
    found = [b"%b:%d" % each for each in zip(places, offsets, strict=True)]
    nameless = [number for number, name in names.items() if not name]
    unknown = (values.owners == _UNKNOWN) | np.isin(numbers, nameless)
    for row in np.flatnonzero(unknown).tolist():
        found[row] = b"unknown"
    return found


def _name(number: int, origins: Origins | None) -> bytes:
    """Return the text of a place; it is empty if no place has this number."""
    if origins is None:
        return b"%d" % number
    place = origins.place_of(number)
    return b"" if place is None else f"{place[0]}:{place[1]}".encode()
