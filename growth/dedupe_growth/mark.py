"""The mark: the record that shows where an epoch begins in a partition.

The controller appends it to the repartition topic, the worker's loop meets it. Invariant: no producer can write one:
each record of a router ends with the header of its origin, and a mark has a single header, which is another.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from confluent_kafka import Message

from dedupe_kafka.headers import headers_of

MARK_HEADER: Final = "dedupe-epoch"


class Mark(NamedTuple):
    """The epoch that begins, and the number of its partitions."""

    epoch: int
    partitions: int


def encode_mark(mark: Mark) -> bytes:
    """Return the value of the header.

    >>> encode_mark(Mark(epoch=1, partitions=6))
    b'1:6'
    """
    return b"%d:%d" % mark


def mark_of(record: Message) -> Mark | None:
    """Return the mark that a record is; None for any other record."""
    if record.key() is not None or record.value() is not None:
        return None
    headers = headers_of(record)
    if not headers or len(headers) != 1:
        return None
    name, value = headers[0]
    if name != MARK_HEADER or not isinstance(value, bytes):
        return None
    epoch, _, partitions = value.partition(b":")
    if not (epoch.isdigit() and partitions.isdigit()):
        return None
    return Mark(int(epoch), int(partitions))


def find_marks(records: Sequence[Message]) -> list[int]:
    """Return the rows of a batch that are marks.

    Without a step for each record: only those without a value are checked.
    """
    if all(map(len, records)):
        return []
    return [row for row, each in enumerate(records) if not len(each) and mark_of(each) is not None]
