"""Divide a batch of records into runs: neighbours that come from one partition.

A client delivers long runs, so what depends on the partition is done once for each run rather than for each record.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from dedupe_kafka.offsets import Place


def runs_of(records: Sequence[Message]) -> Iterator[tuple[Place, Sequence[Message]]]:
    """Yield the place and the records of each run, in order.

    They are records that a consumer has returned, so they have a topic and a partition.
    """
    topics, partitions = list(map(Message.topic, records)), list(map(Message.partition, records))
    # Of one topic, as they mostly are, the partitions alone tell: pairs take twice as long.
    alike = topics.count(topics[0]) == len(topics) if topics else True
    first = 0
    for _, run in groupby(partitions if alike else zip(topics, partitions, strict=True)):
        end = first + len(list(run))
        yield (topics[first], partitions[first]), records[first:end]  # type: ignore[misc] # see above
        first = end


def offsets_of(records: Sequence[Message]) -> NDArray[np.uint64]:
    """Return the offsets of records of one partition, in order: shape (n,)."""
    first, last = records[0].offset() or 0, records[-1].offset() or 0
    if last - first == len(records) - 1:  # no marker among them: it saves a call for each
        return np.arange(first, last + 1, dtype=np.uint64)
    return np.fromiter(map(Message.offset, records), np.uint64, len(records))
