"""The value of a key in the store: which input record the id was first seen in (Tapjoy's owner id), and what else
the stream wants to know of it.

    bytes 0-1   input partition, big-endian, unsigned
    bytes 2-7   offset in that partition, big-endian, unsigned

Then, in a stream that tells of its duplicates, six bytes with the record's timestamp (Unix milliseconds, big-endian,
signed), and in one that looks for conflicts, four with a hash of its content (see `content_hash`). The length says
which of them are there: 8, 14, 12 or 18 bytes. So a stream may begin or cease to ask, and older values stay as they
are.

An owner of all ones is not known: the id was learnt from the output topic alone, whose records do not say which
offset they had in the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

OWNER_BYTES: Final = 8
UNKNOWN_OWNER: Final = b"\xff" * OWNER_BYTES

_OFFSET_BITS: Final = 48
_TIME_BYTES: Final = 6
_HASH_BYTES: Final = 4
_HASHED: Final = (OWNER_BYTES + _HASH_BYTES, OWNER_BYTES + _TIME_BYTES + _HASH_BYTES)
_SPREAD: Final = 0x9E3779B1

OWNER: Final = np.dtype(f"V{OWNER_BYTES}")

Owners = NDArray[np.void]
"""Owners of a batch: shape (n,), dtype OWNER, or wider where a layout has more."""

Offsets = NDArray[np.uint64]
Times = NDArray[np.int64]
"""Timestamps of a batch, Unix milliseconds."""


def encode_owner(partition: int, offset: int) -> bytes:
    """Pack one owner. Raises OverflowError outside 2 + 6 bytes."""
    return partition.to_bytes(2, "big") + offset.to_bytes(6, "big")


def decode_owner(owner: bytes) -> tuple[int, int] | None:
    """Unpack to (partition, offset), or None where the owner is not known."""
    if owner == UNKNOWN_OWNER:
        return None
    return int.from_bytes(owner[:2], "big"), int.from_bytes(owner[2:], "big")


def encode_owners(partition: int, offsets: Offsets) -> Owners:
    """Pack a batch of owners of one partition: shape (n,) offsets to n owners."""
    return (offsets | np.uint64(partition << _OFFSET_BITS)).astype(">u8").view(OWNER)


def unknown_owners(count: int) -> Owners:
    """As many times the owner that is not known."""
    return np.frombuffer(UNKNOWN_OWNER * count, OWNER)


def came_after(one: bytes, other: bytes) -> bool:
    """Whether the record of one value stands behind that of another in their partition, as far as that is known."""
    one, other = one[:OWNER_BYTES], other[:OWNER_BYTES]
    return one != UNKNOWN_OWNER and one[:2] == other[:2] and one > other


def timestamp_of(value: bytes) -> int | None:
    """The timestamp in a value, Unix milliseconds; None if it was not kept."""
    if len(value) < OWNER_BYTES + _TIME_BYTES:
        return None
    return int.from_bytes(value[OWNER_BYTES : OWNER_BYTES + _TIME_BYTES], "big", signed=True)


def contradict(one: bytes, other: bytes) -> bool:
    """Whether two values are of different contents; False if that was not kept of both."""
    kept = len(one) in _HASHED and len(other) in _HASHED
    return kept and one[-_HASH_BYTES:] != other[-_HASH_BYTES:]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLayout:
    """What a stream keeps of the first record of each id, beside its owner."""

    timed: bool = False
    hashed: bool = False

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Of a batch of values."""
        return np.dtype(f"V{OWNER_BYTES + self.timed * _TIME_BYTES + self.hashed * _HASH_BYTES}")

    def encode(
        self, owners: Owners, records: Sequence[Message], rows: NDArray[np.intp], times: Times
    ) -> Owners:
        """The values of `rows` (n,) of a batch, which have these owners (n,): shape (n,), dtype of this layout.

        `times` are the timestamps of all `records`.
        """
        parts = [owners.view(np.uint8).reshape(-1, OWNER_BYTES)]
        if self.timed:
            big_endian = times[rows].astype(">i8").view(np.uint8).reshape(-1, 8)
            parts.append(big_endian[:, 8 - _TIME_BYTES :])
        if self.hashed:
            hashes = np.fromiter((content_hash(records[row]) for row in rows), ">u4", len(rows))
            parts.append(hashes.view(np.uint8).reshape(-1, _HASH_BYTES))
        if len(parts) == 1:
            return owners
        values: Owners = np.ascontiguousarray(np.hstack(parts)).view(self.dtype).reshape(-1)
        return values


def content_hash(record: Message) -> int:
    """32 bits of a record's key and value (CRC-32), not of its headers and timestamp, which differ between retries.

    Of two contents that differ by chance one in 4 billion is taken for the same.
    """
    key, value = record.key(), record.value()
    # Where it begins tells null from empty, and ("ab", "c") from ("a", "bc"); spread, as a CRC is linear.
    shape = (0 if key is None else len(key) + 1) << 1 | (value is None)
    return crc32(value or b"", crc32(key or b"", shape * _SPREAD & 0xFFFFFFFF))
