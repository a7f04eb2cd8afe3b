"""Divide a batch of records into runs: neighbours that come from one partition.

A client delivers long runs, so what depends on the partition is done once for each run rather than for each record.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from confluent_kafka import Message

from dedupe_kafka.offsets import Place


def runs_of(records: Sequence[Message]) -> Iterator[tuple[Place, Sequence[Message]]]:
    """Yield the place and the records of each run, in order.

    They are records that a consumer has returned, so they have a topic and a partition.
    """
    places = zip(map(Message.topic, records), map(Message.partition, records), strict=True)
    first = 0
    for place, run in groupby(places):
        end = first + len(list(run))
        yield place, records[first:end]  # type: ignore[misc] # see above
        first = end
