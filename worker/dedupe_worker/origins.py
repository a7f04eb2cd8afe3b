"""Numbers of the places that routed records come from.

With them an owner keeps its 8 bytes: 2 of place and 6 of offset (values.py). Without routers the place is the input
partition. Behind routers it is a number of a topic and a partition of it, which each store gives for itself, in the
order in which it meets them. The table of numbers is a text in the store's metadata, written in the same batch as the
ids:

    orders:0+8,returns:0+8,orders:8+16

Each entry gives the next `+count` numbers to the partitions of a topic from one on: here orders/0 to 7 have the numbers
0 to 7, returns/0 to 7 have 8 to 15, and orders/8 to 23 have 16 to 31. Entries are added, and never changed.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from dedupe_ids.origin import BatchOrigins
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import Place
from dedupe_worker.values import OFFSET_BITS, Offsets

_MOST_NUMBERS: Final = 1 << 15
_FEWEST: Final = 8


class TooManyOrigins(StreamError):
    """The inputs have more partitions than a store can number."""


@dataclass(frozen=True, slots=True)
class _Range:
    """Numbers from `first_number` on for partitions of a topic from `first` on."""

    topic: str
    first: int
    count: int
    first_number: int


class Origins:
    """The numbers of one store. Raises ValueError for a text of another form."""

    def __init__(self, text: str = "") -> None:
        self._ranges: list[_Range] = []
        self._next = 0
        for entry in filter(None, text.split(",")):
            topic, _, partitions = entry.rpartition(":")
            first, count = map(int, partitions.split("+"))
            self._add(topic, first, count)

    @property
    def text(self) -> str:
        """Return the table as text."""
        return ",".join(f"{each.topic}:{each.first}+{each.count}" for each in self._ranges)

    def number_of(self, place: Place) -> int:
        """Return the number of a place, which gets one if it has none.

        Raises TooManyOrigins.
        """
        topic, partition = place
        end = 0
        for each in self._ranges:
            if each.topic != topic:
                continue
            if each.first <= partition < each.first + each.count:
                return each.first_number + partition - each.first
            end = max(end, each.first + each.count)
        needed = max(_FEWEST, 1 << (partition - end).bit_length())
        if self._next + needed > _MOST_NUMBERS:
            raise TooManyOrigins(
                f"the inputs of this stream have had more than {_MOST_NUMBERS:,} partitions: create another stream"
            )
        self._add(topic, end, needed)
        return self.number_of(place)

    def place_of(self, number: int) -> Place | None:
        """Return the place of a number; None if no place has it."""
        for each in self._ranges:
            if each.first_number <= number < each.first_number + each.count:
                return each.topic, each.first + number - each.first_number
        return None

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

    def adopted(self, owners: Offsets, table: str) -> Offsets:
        """Return owners of another table with the numbers of this one: shape (n,).

        Raises TooManyOrigins, and ValueError for a table of another form.
        """
        if table == self.text:
            return owners
        others, numbers = Origins(table), (owners >> np.uint64(OFFSET_BITS)).astype(np.intp)
        renumbered = owners & np.uint64((1 << OFFSET_BITS) - 1)
        for number in np.unique(numbers).tolist():
            if (place := others.place_of(number)) is None:
                raise ValueError(f"no place has the number {number} in {table}")
            renumbered[numbers == number] |= np.uint64(self.number_of(place) << OFFSET_BITS)
        return renumbered

    def _add(self, topic: str, first: int, count: int) -> None:
        self._ranges.append(_Range(topic, first, count, self._next))
        self._next += count
