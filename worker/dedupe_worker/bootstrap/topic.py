"""Ids from the records of a topic.

`request` opens it. Invariant: reading stops at the ends that the partitions had when it first began, also after an
interruption.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from confluent_kafka import Message

from dedupe_ids.extract import Extractor
from dedupe_kafka.errors import BrokerUnavailable, InvalidConfig
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.bootstrap.placement import Partitions, Placement
from dedupe_worker.bootstrap.source import Batch, Json, seen_entries
from dedupe_worker.kafka.consumer import PartitionReader

_BATCH_RECORDS: Final = 20_000
_WAIT_SECONDS: Final = 0.5
_STALLED_READS: Final = 120  # a minute and more: an idle read waits for half a second


class TopicSource:
    """All committed records of `ranges`, the present offsets of each partition.

    Without a `placement` a record's partition is its own, and only `wanted` ones are read; with it, all are, because an
    id of any may belong to a wanted one. `reader` opens one partition.
    """

    def __init__(
        self,
        name: str,
        topic_id: str,
        ranges: Mapping[int, OffsetRange],
        *,
        reader: Callable[[int], PartitionReader],
        extract: Extractor,
        wanted: frozenset[int],
        placement: Placement | None,
    ) -> None:
        self._name = name
        self._id = topic_id
        self._reader = reader
        self._extract = extract
        self._placement = placement
        self._ranges = {p: ranges[p] for p in ranges if placement or p in wanted}

    @property
    def fingerprint(self) -> Json:
        """Return the topic itself: it only grows, and the ends are in the position."""
        name = self._placement and self._placement.name
        return {"topic": self._name, "id": self._id, "partitionBy": name}

    @property
    def total(self) -> int:
        """Return the number of offsets to read, at most."""
        return sum(each.end - each.low for each in self._ranges.values())

    def batches(self, position: Json | None) -> Iterator[Batch]:
        """Yield batches from `position` on: {partition: [next offset, end]}."""
        state = {str(p): [each.low, each.end] for p, each in self._ranges.items()}
        state |= position or {}
        for name, (offset, end) in sorted(state.items()):
            partition = int(name)
            start = max(offset, self._ranges[partition].low)  # retention may have moved on
            for records, next_offset in self._records(partition, start, end):
                state[name] = [next_offset, end]
                done = sum(n - self._ranges[int(p)].low for p, (n, _) in state.items())
                yield self._batch(records, partition, dict(state), done)

    def _records(
        self, partition: int, start: int, end: int
    ) -> Iterator[tuple[Sequence[Message], int]]:
        if start >= end:
            return
        reader = self._reader(partition)
        try:
            reader.seek(start)
            position, stalled = start, 0
            while position < end:
                batch = reader.read(_BATCH_RECORDS, _WAIT_SECONDS)
                stalled = stalled + 1 if batch.next_offset == position else 0
                if stalled > _STALLED_READS:
                    raise BrokerUnavailable(
                        f"reading {self._name}/{partition}: nothing came after offset {position}; "
                        "check Kafka and run this again, it resumes there"
                    )
                position = batch.next_offset
                records = batch.records
                if position > end:  # records that arrived since the begin are not part of it
                    records = [r for r in records if (r.offset() or 0) < end]
                yield records, min(position, end)
        finally:
            reader.close()

    def _batch(
        self, records: Sequence[Message], partition: int, position: Json, done: int
    ) -> Batch:
        ids = self._extract(records)
        chosen = records if len(ids.rows) == len(records) else [records[r] for r in ids.rows]
        times = np.fromiter((r.timestamp()[1] for r in chosen), np.int64, len(chosen))
        placement = self._placement
        if placement is None:
            partitions = np.full(len(chosen), partition, np.int64)
        elif placement.of_ids is not None:
            partitions = placement.of_ids(ids.packed)
        else:
            partitions = self._by_key(chosen, placement)
        entries = seen_entries(ids.packed, times)
        return Batch(entries, partitions, len(records) - len(chosen), position, done)

    def _by_key(self, records: Sequence[Message], placement: Placement) -> Partitions:
        keys = []
        for record in records:
            if not (key := record.key()):
                raise InvalidConfig(
                    f"{self._name}/{record.partition()} offset {record.offset()} has no key, so "
                    f"{placement.chosen_by} can't determine its partition: {_without_key(placement)}"
                )
            keys.append(key if isinstance(key, bytes) else key.encode())
        assert placement.of_keys is not None  # noqa: S101 (for the type checker: it has one of the two)
        return placement.of_keys(keys)


def _without_key(placement: Placement) -> str:
    if placement.is_only:
        return "copy the topic without such records, and read that"
    return "copy it to a topic with the input's partitions, and read that"
