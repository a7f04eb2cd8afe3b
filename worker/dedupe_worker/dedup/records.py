"""The seam between the loop and what a batch of records is.

The loop needs arrays of a batch, a choice of its records, and single records only where few are meant. A list of the
client library's records gives both, and so does `ArrayRecords`, of which no record is a Python object until it is asked
for.
"""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

from confluent_kafka import Message

from dedupe_ids.batch import Mask
from dedupe_ids.extract import Extractor, PackedIds
from dedupe_ids.runs import offsets_of
from dedupe_kafka.errors import RecordUnreadable
from dedupe_kafka.headers import before_unreadable
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.values import Offsets, Times, timestamps


class Arrays(NamedTuple):
    """The ids of a batch of n records, and their offsets and timestamps: shape (n,)."""

    ids: PackedIds
    offsets: Offsets
    times: Times


class ArrayRecords(Sequence[Message]):
    """Records that come with their arrays."""

    @property
    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the arrays of the whole batch."""

    @abstractmethod
    def choose(self, mask: Mask) -> Sequence[Message]:
        """Return the records that a mask of the whole batch keeps."""


def arrays_of(records: Sequence[Message], extract: Extractor) -> Arrays:
    """Return the arrays of a batch."""
    if isinstance(records, ArrayRecords):
        return records.arrays
    return Arrays(extract(records), offsets_of(records), timestamps(records))


def choose(records: Sequence[Message], mask: Mask) -> Sequence[Message]:
    """Return the records that a mask keeps."""
    if isinstance(records, ArrayRecords):
        return records.choose(mask)
    return list(compress(records, mask.tolist()))


def readable_part(batch: Batch) -> tuple[Batch, RecordUnreadable | None]:
    """Return the batch before its first unreadable record, and that record's error.

    Nothing counts as behind then, so what stands before that record is committed at once. Records of the extension stay
    bytes, whatever their headers are called.
    """
    if isinstance(batch.records, ArrayRecords):
        return batch, None
    records, unreadable = before_unreadable(batch.records)
    if unreadable is None:
        return batch, None
    return Batch(records, batch.records[len(records)].offset() or 0, 0), unreadable
