"""How many slots a table needs, what they take, and how much they retain. No I/O.

An id is overwritten by a later one that falls into the same of the N slots. One later id misses its slot with the
chance 1 - 1/N, all of x later ones with (1 - 1/N)^x, so

    P(lost after x) = 1 - (1 - 1/N)^x        retained after x = (1 - 1/N)^x
"""

from math import ceil, exp, expm1, floor, log, log1p
from typing import Final

from dedupe_crds.spec.store import InverseBloom
from dedupe_ids.extract import ID_BYTES

LEAST_SLOTS: Final = 1024
MOST_SLOTS: Final = 1 << 32
"""More than a hash of 64 bits spreads evenly, and 96 GiB."""


def slot_bytes(value_bytes: int) -> int:
    """Memory of one slot: an id and what is remembered of it.

    >>> slot_bytes(8)
    24
    """
    return ID_BYTES + value_bytes


def slots_in(memory: int, value_bytes: int) -> int:
    """Slots that fit into so many bytes.

    >>> slots_in(1 << 30, 8)
    44739242
    """
    return memory // slot_bytes(value_bytes)


def slots_for(messages: float, retain: float) -> int:
    """The fewest slots that keep the share `retain` of ids for so many further messages; 0 < retain < 1.

    >>> slots_for(3_600_000, 0.9)
    34168399
    """
    return max(1, ceil(1 / -expm1(log(retain) / messages)))


def messages_for(slots: int, retain: float) -> int:
    """Further messages for which so many slots keep the share `retain` of ids.

    >>> messages_for(100, 0.01), messages_for(34_168_399, 0.9)
    (458, 3600000)
    """
    return floor(log(retain) / log1p(-1 / slots))


def retained(slots: int, messages: float) -> float:
    """The share of ids that is still there after so many further messages.

    >>> round(retained(100, 459), 2), round(retained(1_560_000, 3_600_000), 2)
    (0.01, 0.1)
    """
    return exp(messages * log1p(-1 / slots))


def lost(slots: int, messages: float) -> float:
    """The share of ids that was overwritten after so many further messages: P(lost after x).

    >>> round(lost(100, 459), 2)
    0.99
    """
    return -expm1(messages * log1p(-1 / slots))


def half_life(slots: int) -> int:
    """Further messages after which half of the ids are lost: 0.69 times the slots.

    >>> half_life(1_000_000)
    693146
    """
    return messages_for(slots, 0.5)


def slots_wanted(wanted: InverseBloom, value_bytes: int) -> int:
    """What a manifest asks for, at least the fewest that a table has."""
    if wanted.slots is not None:
        return wanted.slots
    if wanted.memory is not None:
        found = slots_in(wanted.memory, value_bytes)
    else:
        assert wanted.messages is not None  # noqa: S101 (the manifest was refused without)
        assert wanted.retain is not None  # noqa: S101
        found = slots_for(wanted.messages, wanted.retain)
    return max(found, LEAST_SLOTS)
