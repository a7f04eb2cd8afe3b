"""Which input record each output record was: kept beside the output, for the day on which a store is rebuilt from it.

Output records are as their producers wrote them and say nothing of where they stood in the input. So each transaction
adds a note to the topic `<output>-owners`, same partition, about the records that it adds to the output:

    key          the output topic's UUID as text: notes about a topic that was deleted and created again are of no use
    byte  0      format, 1
    bytes 1-8    output offset of the first record, big-endian; the others follow without gaps
    then, compressed by zlib, runs of neighbouring input offsets: first offset and length, both 8 bytes, little-endian

As few records are duplicates, runs are long and a note takes a few bytes a duplicate. A header on each output record
would cost 25 bytes a record and change it.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from dedupe_worker.values import Offsets

_FORMAT: Final = 1
_HEAD: Final = struct.Struct(">Bq")
_MOST_RUNS: Final = (
    1 << 14
)  # 256 KiB before they are compressed: less than any topic's max.message.bytes
_FASTEST: Final = 1


def encode_notes(first_output: int, inputs: Offsets) -> Iterator[bytes]:
    """Notes that output records from `first_output` on were the input records `inputs`, ascending."""
    starts = np.flatnonzero(np.diff(inputs, prepend=inputs[:1]) != 1)
    lengths = np.diff(starts, append=len(inputs))
    for at in range(0, len(starts), _MOST_RUNS):
        of_note = slice(at, at + _MOST_RUNS)
        runs = np.stack([inputs[starts[of_note]], lengths[of_note].astype(np.uint64)], axis=1)
        packed = zlib.compress(runs.astype("<u8").tobytes(), _FASTEST)
        yield _HEAD.pack(_FORMAT, first_output + int(starts[at])) + packed


def decode_note(value: bytes) -> tuple[int, Offsets]:
    """The first output offset, and the input offsets of that record and those that follow. Raises ValueError."""
    try:
        written, first_output = _HEAD.unpack_from(value)
        runs = np.frombuffer(zlib.decompress(value[_HEAD.size :]), "<u8").reshape(-1, 2)
    except (struct.error, zlib.error, ValueError) as error:
        raise ValueError(f"a note about owners is damaged: {error}") from error
    if written != _FORMAT:
        raise ValueError(f"a note about owners has format {written}, not {_FORMAT}")
    lengths = runs[:, 1].astype(np.int64)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return first_output, np.repeat(runs[:, 0].astype(np.uint64), lengths) + within.astype(np.uint64)
