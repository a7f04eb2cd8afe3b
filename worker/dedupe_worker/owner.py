"""The value of a key in the store: which input record the id was first seen in (Tapjoy's owner id).

    bytes 0-1   input partition, big-endian, unsigned
    bytes 2-7   offset in that partition, big-endian, unsigned

All ones means that the owner is not known: the id was learnt from the output topic, whose records do not
say which offset they had in the input.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

OWNER_BYTES: Final = 8
UNKNOWN_OWNER: Final = b"\xff" * OWNER_BYTES

_OFFSET_BITS: Final = 48

OWNER: Final = np.dtype(f"V{OWNER_BYTES}")

Owners = NDArray[np.void]
"""Owners of a batch: shape (n,), dtype OWNER."""


def encode_owner(partition: int, offset: int) -> bytes:
    """Pack one owner. Raises OverflowError outside 2 + 6 bytes."""
    return partition.to_bytes(2, "big") + offset.to_bytes(6, "big")


def decode_owner(owner: bytes) -> tuple[int, int] | None:
    """Unpack to (partition, offset), or None where the owner is not known."""
    if owner == UNKNOWN_OWNER:
        return None
    return int.from_bytes(owner[:2], "big"), int.from_bytes(owner[2:], "big")


def encode_owners(partition: int, offsets: NDArray[np.uint64]) -> Owners:
    """Pack a batch of owners of one partition: shape (n,) offsets to n owners."""
    return (offsets | np.uint64(partition << _OFFSET_BITS)).astype(">u8").view(OWNER)


def unknown_owners(count: int) -> Owners:
    """As many times the owner that is not known."""
    return np.frombuffer(UNKNOWN_OWNER * count, OWNER)
