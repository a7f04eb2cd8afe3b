"""Ranges of offsets as a text of a store's metadata."""

from collections.abc import Sequence
from typing import Final

from dedupe_kafka.offsets import OffsetRange

_MOST_RANGES: Final = 32


def encode_ranges(ranges: Sequence[OffsetRange], position: int) -> str:
    """Encode the ranges that reach beyond a position; of many the newest.

    >>> encode_ranges([OffsetRange(3, 5), OffsetRange(7, 9), OffsetRange(12, 20)], 5)
    '7-9,12-20'
    """
    beyond = [f"{each.low}-{each.end}" for each in ranges[-_MOST_RANGES:] if each.end > position]
    return ",".join(beyond)


def decode_ranges(text: str) -> list[OffsetRange]:
    """Decode what `encode_ranges` has returned.

    >>> decode_ranges("7-9,12-20")
    [OffsetRange(low=7, end=9), OffsetRange(low=12, end=20)]
    """
    pairs = (each.split("-") for each in text.split(",") if each)
    return [OffsetRange(int(low), int(end)) for low, end in pairs]
