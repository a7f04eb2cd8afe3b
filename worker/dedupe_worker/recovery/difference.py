"""Find what the store and the output topic have of one range of ids.

`full_reconcile` calls this for one range after the other. Invariant: decisions only, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dedupe_worker.store.external_sort import Entries, Ids, find


@dataclass(frozen=True, slots=True)
class GenerationRange:
    """The output offsets of a generation's ids: they are at `begin` or later.

    `bootstrapped`: its ids came from elsewhere (`dedupe bootstrap`), and the output topic does not have them.
    """

    name: str
    begin: int
    bootstrapped: bool


def plan_ranges(positions: Sequence[tuple[str, int | None]]) -> list[GenerationRange]:
    """Return the ranges of generations, oldest first.

    `positions` are the output positions that each is complete up to. A generation holds the records that were produced
    after its predecessor was sealed. Where there is none, or it is gone, 0 is certain not to be too late.
    """
    ranges: list[GenerationRange] = []
    begin = 0
    for name, position in positions:
        bootstrapped = name.startswith("b")
        ranges.append(GenerationRange(name, begin, bootstrapped))
        if position is not None and not bootstrapped:
            begin = position
    return ranges


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences within one range of ids.

    `missing` are entries of the output that no generation has. `surplus`, an array for each generation, are its ids
    that no output record has. `first_known` is the lowest position of a record that an ordinary generation remembers.
    """

    missing: Entries
    surplus: list[Ids]
    first_known: int | None


def find_difference(
    output: Entries, stored: Sequence[Ids], ranges: Sequence[GenerationRange]
) -> Difference:
    """Compare one range of ids.

    `output` and each generation's ids are sorted, and have no id twice.
    """
    ids = np.ascontiguousarray(output["id"])
    known = np.zeros(len(ids), np.bool_)
    ordinary = known.copy()
    surplus: list[Ids] = []
    for of_generation, generation in zip(stored, ranges, strict=True):
        rows, found = find(ids, of_generation)
        known[rows[found]] = True
        if generation.bootstrapped:
            surplus.append(of_generation[:0])
            continue
        ordinary[rows[found]] = True
        surplus.append(of_generation[~found])
    positions = output["position"][ordinary]
    return Difference(output[~known], surplus, int(positions.min()) if len(positions) else None)


def find_generation(
    ranges: Sequence[GenerationRange], positions: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Return the generation, as its number in `ranges`, for a record at each position.

    It is the last generation that begins there or before, so that its `GenerationRange` stays true.
    """
    ordinary = [number for number, generation in enumerate(ranges) if not generation.bootstrapped]
    begins = np.array([ranges[number].begin for number in ordinary], np.int64)
    place = np.searchsorted(begins, positions, "right") - 1
    homes: NDArray[np.intp] = np.array(ordinary, np.intp)[np.maximum(place, 0)]
    return homes
