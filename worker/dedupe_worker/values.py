"""The value of a key in the store: the owner and what else the stream needs of it.

The owner is the first input record with the id (Tapjoy's owner id).

    bytes 0-1   input partition, big-endian, unsigned; behind routers the number of a place (origins.py)
    bytes 2-7   offset in that partition, big-endian, unsigned

If the stream routes its duplicates, six bytes follow with the record's timestamp (Unix milliseconds, big-endian,
signed). The lowest number there is an unknown time: one that six bytes cannot hold. If the stream detects conflicts,
four bytes follow with a hash of the content (see `content_hashes`). The length shows which of them are present: 8, 14,
12 or 18 bytes. So these settings can change, and older values stay as they are.

An owner with all bits set is unknown: the id was read from the output topic alone, whose records do not hold their
offset in the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray
from zlib_ng.zlib_ng import crc32

from dedupe_ids.batch import Mask, Rows

OWNER_BYTES: Final = 8
UNKNOWN_OWNER: Final = b"\xff" * OWNER_BYTES

OFFSET_BITS: Final = 48
_TIME_BYTES: Final = 6
_HASH_BYTES: Final = 4
_TIME_END: Final = OWNER_BYTES + _TIME_BYTES
_HASHED: Final = (OWNER_BYTES + _HASH_BYTES, _TIME_END + _HASH_BYTES)
# From the year -2490 to 6429. Timestamps in microseconds, or of another unit, are beyond it.
_MOST_TIME: Final = (1 << (8 * _TIME_BYTES - 1)) - 1
_UNKNOWN_TIME: Final = -_MOST_TIME - 1
_SPREAD: Final = 0x9E3779B1

OWNER: Final = np.dtype(f"V{OWNER_BYTES}")

_MILLISECONDS: Final = itemgetter(1)  # of (type, milliseconds)

Values = NDArray[np.void]
"""Values of a batch: shape (n,), dtype OWNER, or wider where a layout has more."""

Offsets = NDArray[np.uint64]
Times = NDArray[np.int64]
"""Timestamps of a batch, Unix milliseconds."""


def encode_owner(partition: int, offset: int) -> bytes:
    """Pack one owner. Raises OverflowError outside 2 + 6 bytes."""
    return partition.to_bytes(2, "big") + offset.to_bytes(6, "big")


def decode_owner(owner: bytes) -> tuple[int, int] | None:
    """Unpack to (partition, offset); None for the unknown owner."""
    if owner == UNKNOWN_OWNER:
        return None
    return int.from_bytes(owner[:2], "big"), int.from_bytes(owner[2:], "big")


def encode_owners(partition: int, offsets: Offsets) -> Values:
    """Pack a batch of owners of one partition: shape (n,) offsets to n owners."""
    return (offsets | np.uint64(partition << OFFSET_BITS)).astype(">u8").view(OWNER)


def owners_of(numbers: Offsets) -> Values:
    """Pack a batch of owners that are numbers of 8 bytes: shape (n,)."""
    return numbers.astype(">u8").view(OWNER)


def unknown_owners(count: int) -> Values:
    """Return the unknown owner `count` times."""
    return np.frombuffer(UNKNOWN_OWNER * count, OWNER)


def without_owner(value: bytes) -> bytes:
    """Return the value with the unknown owner; timestamp and hash stay."""
    return UNKNOWN_OWNER + value[OWNER_BYTES:]


def came_after(value: bytes, other: bytes) -> bool:
    """Return whether the record of `value` follows that of `other` in their partition.

    False where that is not known.
    """
    owner, other = value[:OWNER_BYTES], other[:OWNER_BYTES]
    return owner != UNKNOWN_OWNER and owner[:2] == other[:2] and owner > other


def timestamp_of(value: bytes) -> int | None:
    """Return the timestamp in a value, Unix milliseconds; None if it is unknown."""
    if len(value) < _TIME_END:
        return None
    time = int.from_bytes(value[OWNER_BYTES:_TIME_END], "big", signed=True)
    return None if time == _UNKNOWN_TIME else time


def contents_differ(value: bytes, other: bytes) -> bool:
    """Return whether two values are of different contents; False without two hashes."""
    hashed = len(value) in _HASHED and len(other) in _HASHED
    return hashed and value[-_HASH_BYTES:] != other[-_HASH_BYTES:]


@dataclass(frozen=True, slots=True)
class Decoded:
    """Owners and timestamps of n values of any layouts, each of shape (n,).

    `owners` are numbers of 8 bytes, `times` Unix milliseconds where the value is `timed`.
    """

    owners: Offsets
    times: Times
    timed: Mask

    @classmethod
    def of(cls, values: Sequence[bytes]) -> "Decoded":
        """Decode a batch of values."""
        # As wide as an owner and a time: numpy cuts a hash off, and fills a missing time with zeros.
        grid = np.array(values, f"S{_TIME_END}").view(np.uint8).reshape(-1, _TIME_END)
        owners = np.ascontiguousarray(grid[:, :OWNER_BYTES]).view(">u8")
        times = np.zeros((len(values), 8), np.uint8)
        times[:, :_TIME_BYTES] = grid[:, OWNER_BYTES:]
        milliseconds = times.view(">i8").ravel().astype(np.int64) >> 8 * (8 - _TIME_BYTES)
        is_long = np.fromiter(map(len, values), np.intp, len(values)) >= _TIME_END
        return cls(
            owners.ravel().astype(np.uint64),
            milliseconds,
            is_long & (milliseconds != _UNKNOWN_TIME),
        )

    def take(self, rows: Rows) -> "Decoded":
        """Return some of them."""
        return Decoded(self.owners[rows], self.times[rows], self.timed[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLayout:
    """The fields that a stream stores of an id's first record, after the owner."""

    timed: bool = False
    hashed: bool = False

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Return the dtype of a batch of values."""
        return np.dtype(f"V{OWNER_BYTES + self.timed * _TIME_BYTES + self.hashed * _HASH_BYTES}")

    def encode(
        self, owners: Values, records: Sequence[Message], rows: NDArray[np.intp], times: Times
    ) -> Values:
        """Encode the values of `rows` (n,) of a batch: shape (n,), dtype of this layout.

        `owners` (n,) are those of `rows`, `times` the timestamps of all `records`.
        """
        parts = [owners.view(np.uint8).reshape(-1, OWNER_BYTES)]
        if self.timed:
            fits = (times[rows] > _UNKNOWN_TIME) & (times[rows] <= _MOST_TIME)
            big_endian = (
                np.where(fits, times[rows], _UNKNOWN_TIME)
                .astype(">i8")
                .view(np.uint8)
                .reshape(-1, 8)
            )
            parts.append(big_endian[:, 8 - _TIME_BYTES :])
        if self.hashed:
            every = len(rows) == len(records)
            chosen = records if every else [records[row] for row in rows.tolist()]
            hashes = content_hashes(chosen).astype(">u4")
            parts.append(hashes.view(np.uint8).reshape(-1, _HASH_BYTES))
        if len(parts) == 1:
            return owners
        values: Values = np.ascontiguousarray(np.hstack(parts)).view(self.dtype).reshape(-1)
        return values


def content_hashes(records: Sequence[Message]) -> NDArray[np.uint32]:
    """Hash the key and value of each of n records to 32 bits (CRC-32): shape (n,).

    Headers and timestamp are left out, because they differ between retries. Of pairs of different contents one in 4
    billion has the same hash by chance.
    """
    return _hashes(list(map(Message.key, records)), list(map(Message.value, records)))


def _hashes(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> NDArray[np.uint32]:
    count = len(keys)
    sizes = [0 if key is None else len(key) + 1 for key in keys]
    shapes = np.fromiter(sizes, np.uint32, count) << np.uint32(1)
    if None in keys or None in values:
        shapes |= np.fromiter([value is None for value in values], np.bool_, count)
        keys, values = [key or b"" for key in keys], [value or b"" for value in values]
    # The start value separates null from empty, and ("ab", "c") from ("a", "bc"); spread, as a CRC is linear.
    starts = (shapes * np.uint32(_SPREAD)).tolist()
    of_keys = map(crc32, keys, starts)
    hashes = map(crc32, values, of_keys)
    return np.fromiter(hashes, np.uint32, count)


def fingerprint(record: Message, offset: int) -> str:
    """Return the offset, timestamp and content hash of a record, as text."""
    # The producer writes no timestamp 0 (see `PartitionOutput.produce`). Not content_hashes, which asks messages of the
    # client library only.
    content = _hashes([record.key()], [record.value()])[0]
    return f"{offset} {record.timestamp()[1] or 1} {content:08x}"


def timestamps(records: Sequence[Message]) -> Times:
    """Return the timestamps of n records, Unix milliseconds: shape (n,).

    0 or less where a record has none.
    """
    return np.fromiter(map(_MILLISECONDS, map(Message.timestamp, records)), np.int64, len(records))
