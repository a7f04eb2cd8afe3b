"""The number of slots of a table, their size, and what they retain. No I/O.

An id is overwritten by a later one that falls into the same of the N slots. One later id misses its slot with the
chance 1 - 1/N, all of x later ones with (1 - 1/N)^x, so

    P(lost after x) = 1 - (1 - 1/N)^x        retained after x = (1 - 1/N)^x
"""

from math import ceil, exp, expm1, floor, log, log1p
from typing import Final

from dedupe_crds.spec.inverse_bloom import InverseBloom
from dedupe_ids.extract import ID_BYTES

LEAST_SLOTS: Final = 1024
MOST_SLOTS: Final = 1 << 32
"""A hash of 64 bits spreads no more evenly; 96 GiB."""


def slot_bytes(value_bytes: int) -> int:
    """Return the bytes of one slot: an id and its value.

    >>> slot_bytes(8)
    24
    """
    return ID_BYTES + value_bytes


def slots_in(memory: int, value_bytes: int) -> int:
    """Return the slots that fit into so many bytes.

    >>> slots_in(1 << 30, 8)
    44739242
    """
    return memory // slot_bytes(value_bytes)


def slots_for(messages: float, retain: float) -> int:
    """Return the fewest slots that retain the share `retain` of ids for so many more.

    0 < retain < 1, and `messages` is the number of further messages.

    >>> slots_for(3_600_000, 0.9)
    34168399
    """
    return max(1, ceil(1 / -expm1(log(retain) / messages)))


def messages_for(slots: int, retain: float) -> int:
    """Return for how many further messages the slots retain a share of ids.

    >>> messages_for(100, 0.01), messages_for(34_168_399, 0.9)
    (458, 3600000)
    """
    return floor(log(retain) / log1p(-1 / slots))


def retained(slots: int, messages: float) -> float:
    """Return the share of ids that is retained after so many further messages.

    >>> round(retained(100, 459), 2), round(retained(1_560_000, 3_600_000), 2)
    (0.01, 0.1)
    """
    return exp(messages * log1p(-1 / slots))


def lost(slots: int, messages: float) -> float:
    """Return the share of ids that is lost after so many further messages.

    >>> round(lost(100, 459), 2)
    0.99
    """
    return -expm1(messages * log1p(-1 / slots))


def half_life(slots: int) -> int:
    """Return after how many messages half of the ids are lost: 0.69 times the slots.

    >>> half_life(1_000_000)
    693146
    """
    return messages_for(slots, 0.5)


def slots_wanted(wanted: InverseBloom, value_bytes: int) -> int:
    """Return the slots that a manifest requests, or the minimum."""
    if wanted.slots is not None:
        return wanted.slots
    if wanted.memory is not None:
        found = slots_in(wanted.memory, value_bytes)
    else:
        assert wanted.messages is not None  # noqa: S101 (the manifest was refused without)
        assert wanted.retain is not None  # noqa: S101
        found = slots_for(wanted.messages, wanted.retain)
    return max(found, LEAST_SLOTS)
