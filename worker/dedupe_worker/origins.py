"""Numbers of the places that routed records come from.

With them an owner keeps its 8 bytes: 2 of place and 6 of offset (values.py). Without routers the place is the input
partition. Behind routers it is a number of a topic and a partition of it, which each store gives for itself, in the
order in which it meets them. The table of numbers is a text in the store's metadata, written in the same batch as the
ids:

    orders:0+8,returns:0+8,orders:8+16

Each entry gives the next `+count` numbers to the partitions of a topic from one on: here orders/0 to 7 have the numbers
0 to 7, returns/0 to 7 have 8 to 15, and orders/8 to 23 have 16 to 31. A topic gets at least as many numbers again as it
has, so its entries are few, and at most twice as many numbers as it has partitions. A number never gets another place.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from dedupe_ids.origin import BatchOrigins
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import Place
from dedupe_worker.values import OFFSET_BITS, Offsets

_MOST_NUMBERS: Final = 1 << 15
_MANY_NUMBERS: Final = _MOST_NUMBERS * 3 // 4


class TooManyOrigins(StreamError):
    """The inputs, present and former, have more partitions than a store can number."""


@dataclass(slots=True)
class _Range:
    """Numbers from `first_number` on for partitions of a topic from `first` on."""

    topic: str
    first: int
    count: int
    first_number: int

    @property
    def end(self) -> int:
        """The partition after the last one."""
        return self.first + self.count


class Origins:
    """The numbers of one store. Raises ValueError for a text of another form."""

    def __init__(self, text: str = "") -> None:
        self._ranges: list[_Range] = []
        self._of_topic: defaultdict[str, list[_Range]] = defaultdict(list)
        self._text: str | None = None
        self._next = 0
        for entry in filter(None, text.split(",")):
            topic, _, partitions = entry.rpartition(":")
            first, count = map(int, partitions.split("+"))
            self._add(topic, first, count)

    @property
    def text(self) -> str:
        """Return the table as text."""
        if self._text is None:
            self._text = ",".join(
                f"{each.topic}:{each.first}+{each.count}" for each in self._ranges
            )
        return self._text

    @property
    def problem(self) -> str:
        """Return a warning before the numbers are used up, else ""."""
        if self._next < _MANY_NUMBERS:
            return ""
        topics = len(self._of_topic)
        return (
            f"{self._next:,} of the {_MOST_NUMBERS:,} numbers for places of records are given, to {topics:,} topics "
            "with their partitions, also former ones: the stream stops when no number is left. Read fewer new topics, "
            "or create another stream in time"
        )

    def number_of(self, place: Place) -> int:
        """Return the number of a place, which gets one if it has none.

        Raises TooManyOrigins.
        """
        topic, partition = place
        ranges = self._of_topic.get(topic, ())
        for each in ranges:
            if partition < each.end:
                return each.first_number + partition - each.first
        end = ranges[-1].end if ranges else 0
        needed = max(end, 1 << (partition - end).bit_length())
        if self._next + needed > _MOST_NUMBERS:
            raise TooManyOrigins(
                f"the inputs of this stream, present and former, have taken {self._next:,} of {_MOST_NUMBERS:,} "
                f"numbers, and {topic} needs {needed:,} more: create another stream"
            )
        self._add(topic, end, needed)
        return self.number_of(place)

    def place_of(self, number: int) -> Place | None:
        """Return the place of a number; None if no place has it."""
        if not 0 <= number < self._next:
            return None
        at = self._ranges[bisect(self._ranges, number, key=lambda each: each.first_number) - 1]
        return at.topic, at.first + number - at.first_number

    def owners(self, origins: BatchOrigins, own: Place, at: Offsets) -> Offsets:
        """Return the owner of each record as a number of 8 bytes: shape (n,).

        A record that came through no router comes from `own`, and from the offset `at` (n,). Raises TooManyOrigins.
        """
        unrouted = origins.which < 0
        places = [*origins.places, own] if unrouted.any() else origins.places
        numbers = np.array([self.number_of(place) for place in places], np.uint64)
        offsets = np.where(unrouted, at, origins.offsets)
        # The last one for those of -1
        owners: Offsets = numbers[origins.which] << np.uint64(OFFSET_BITS) | offsets
        return owners

    def adopted(self, owners: Offsets, others: "Origins") -> Offsets:
        """Return owners of another table with the numbers of this one: shape (n,).

        Raises TooManyOrigins, and ValueError for a number that the other table lacks.
        """
        return _renumbered(owners, others, self.number_of)

    def narrowed(self, owners: Offsets) -> tuple[Offsets, "Origins"]:
        """Return owners with a table of their places alone: shape (n,)."""
        named = Origins()

        def number(place: Place) -> int:
            named._add(*place, 1)
            return named._next - 1

        return _renumbered(owners, self, number), named

    def _add(self, topic: str, first: int, count: int) -> None:
        last = self._ranges[-1] if self._ranges else None
        if last is not None and (last.topic, last.end) == (topic, first):
            last.count += count
        else:
            self._ranges.append(_Range(topic, first, count, self._next))
            self._of_topic[topic].append(self._ranges[-1])
        self._next += count
        self._text = None


def _renumbered(owners: Offsets, origins: Origins, number: Callable[[Place], int]) -> Offsets:
    numbers = (owners >> np.uint64(OFFSET_BITS)).astype(np.intp)
    renumbered = np.zeros(1 + int(numbers.max(initial=0)), np.uint64)
    for each in np.flatnonzero(np.bincount(numbers)).tolist():
        if (place := origins.place_of(each)) is None:
            raise ValueError(f"no place has the number {each} in {origins.text}")
        renumbered[each] = number(place)
    offsets = owners & np.uint64((1 << OFFSET_BITS) - 1)
    found: Offsets = renumbered[numbers] << np.uint64(OFFSET_BITS) | offsets
    return found
