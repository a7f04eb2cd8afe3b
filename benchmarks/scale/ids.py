"""The ids a store is filled with, and the messages that a worker gets meanwhile."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.traffic import REPEAT_RATE

FILL_REPEAT_RATE: Final = 0.006
"""Segment's: 0.6 % of the messages repeat one of the last four weeks."""

_NEAR: Final = 1_000
_SALT: Final = np.uint64(0xA5A5_5A5A_0F0F_F0F0)
_STEP: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_K1: Final = np.uint64(0xBF58_476D_1CE4_E5B9)
_K2: Final = np.uint64(0x94D0_49BB_1331_11EB)


def packed_ids(numbers: NDArray[np.int64]) -> bytes:
    """Return the ids of numbers, joined: 16 bytes each.

    They look random and differ as the numbers do. Source of the mixing: Steele, Lea and Flood, "Fast splittable
    pseudorandom number generators" (2014).
    """
    seeds = numbers.astype(np.uint64)
    halves = np.empty((len(seeds), 2), np.uint64)
    halves[:, 0] = _mixed(seeds)
    halves[:, 1] = _mixed(seeds ^ _SALT)
    return halves.tobytes()


def fill_numbers(known: int, count: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], int]:
    """Return `count` numbers for a store of 0 to `known` - 1, and how many are new.

    Some are duplicates of any earlier number. New numbers are `known` and the next, in order.
    """
    is_repeat = (rng.random(count) < FILL_REPEAT_RATE) & (known > 0)
    numbers = known - 1 + np.cumsum(~is_repeat)
    numbers[is_repeat] = rng.integers(0, numbers[is_repeat] + 1)
    return numbers, count - int(np.count_nonzero(is_repeat))


def message_numbers(
    known: int, count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """Return the same for messages, of which more are duplicates.

    Half of the duplicates are of one of the last 1,000 messages, half of any that was ever sent, also while the
    store was small.
    """
    is_repeat = rng.random(count) < REPEAT_RATE
    if not known:
        is_repeat[0] = False
    numbers = known - 1 + np.cumsum(~is_repeat)
    newest = numbers[is_repeat]
    near = rng.random(len(newest)) < 0.5
    numbers[is_repeat] = rng.integers(np.where(near, np.maximum(0, newest - _NEAR), 0), newest + 1)
    return numbers, count - len(newest)


def _mixed(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = (seeds + np.uint64(1)) * _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _K1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _K2
    mixed ^= mixed >> np.uint64(31)
    return mixed
