"""Sizes and durations in manifests: "8Gi", "500M", "4w", "1h30m".

In Python a size is an `int` of bytes and a duration a `timedelta`; in YAML and JSON both are text. Invariant: the
patterns are part of the generated schema, so the API server and Python refuse the same texts.
"""

import re
from datetime import timedelta
from fractions import Fraction
from math import ceil
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

MIB = 1024**2
GIB = 1024**3

SIZE_PATTERN = r"^[0-9]{1,19}((\.[0-9]{1,9})?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?$"
RESOURCE_PATTERN = r"^[0-9]{1,19}((\.[0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?$"
DURATION_PATTERN = r"^([0-9]{1,12}(ms|s|m|h|d|w)){1,6}$"

_MAX_BYTES = 2**63 - 1  # Kubernetes keeps quantities as 64-bit integers
# Largest first, binary before decimal: the order in which a size tries units for its exact text.
_SIZE_UNITS = {
    "Ei": 1024**6,
    "Pi": 1024**5,
    "Ti": 1024**4,
    "Gi": 1024**3,
    "Mi": 1024**2,
    "Ki": 1024,
    "E": 10**18,
    "P": 10**15,
    "T": 10**12,
    "G": 10**9,
    "M": 10**6,
    "k": 1000,
}
# Weeks are read, but not written: a duration has one text, which is part of hashes and of stored objects.
_READ_UNITS = {"w": timedelta(weeks=1)}
_DURATION_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}


def parse_size(text: str | int) -> int:
    """Read a Kubernetes quantity as bytes.

    A fraction of a byte is rounded up, as Kubernetes does.

    >>> parse_size("8Gi"), parse_size("1.5k"), parse_size(1024)
    (8589934592, 1500, 1024)

    Raises:
        ValueError: not a size, negative, or more than a 64-bit integer holds.
    """
    written = str(text) if type(text) is int else text
    if not isinstance(written, str) or not re.fullmatch(SIZE_PATTERN, written):
        raise ValueError(
            f"{text!r} is not a size; write bytes as a Kubernetes quantity such as 512Mi, 8Gi, 500M"
        )
    number = written.rstrip("EPTGMKki")
    size = ceil(Fraction(number) * _SIZE_UNITS.get(written.removeprefix(number), 1))
    if size > _MAX_BYTES:
        raise ValueError(f"{text!r} is too large; write a size below 8Ei")
    return size


def format_size(size: int) -> str:
    """Write bytes in the largest exact unit, binary before decimal.

    >>> format_size(8 * GIB), format_size(500_000_000), format_size(1025)
    ('8Gi', '500M', '1025')
    """
    for unit, factor in _SIZE_UNITS.items():
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def parse_duration(text: str | timedelta) -> timedelta:
    """Read "4w", "28d", "24h", "60s", "25ms" or a sum such as "1h30m".

    Raises:
        ValueError: not a duration, or more than a `timedelta` holds.
    """
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(
            f"{text!r} is not a duration; write whole numbers of w, d, h, m, s or ms, "
            "such as 4w, 28d, 1h30m, 25ms"
        )
    parts = re.findall(r"([0-9]+)(ms|s|m|h|d|w)", text)
    units = _READ_UNITS | _DURATION_UNITS
    try:
        return sum((int(count) * units[unit] for count, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{text!r} is too long; write a shorter one") from None


def format_duration(duration: timedelta) -> str:
    """Write a duration in days and smaller units, without fractions of a millisecond.

    >>> format_duration(timedelta(days=28)), format_duration(timedelta(minutes=90))
    ('28d', '1h30m')
    """
    written = ""
    for unit, length in _DURATION_UNITS.items():
        count, duration = divmod(duration, length)
        written += f"{count}{unit}" if count else ""
    return written or "0s"


def _parse_resource(text: str | int) -> str:
    written = str(text) if type(text) is int else text
    if not isinstance(written, str) or not re.fullmatch(RESOURCE_PATTERN, written):
        raise ValueError(f"{text!r} is not a Kubernetes quantity; write one such as 500m, 2, 400Mi")
    return written


ByteSize = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": SIZE_PATTERN}),
]
"""Bytes. Text in YAML: a Kubernetes quantity of whole bytes, or a plain number."""

Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "duration", "pattern": DURATION_PATTERN}),
]
"""A length of time, with a resolution of milliseconds."""

ResourceQuantity = Annotated[
    str,
    BeforeValidator(_parse_resource),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": RESOURCE_PATTERN}),
]
"""A resource quantity in the form of Kubernetes: 500m, 2, 400Mi."""
