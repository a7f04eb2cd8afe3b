"""Reading through a long stretch of aborted records, which the client drops without a word."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from dedupe_kafka.errors import BrokerUnavailable, RecordCorrupt
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.open_reader import open_reader
from tests.unit.worker.still_clock import StillClock

END = 1_000_000
PAST_STARVED = 100  # reads of half a second


class Record:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def error(self) -> None:
        return None

    def leader_epoch(self) -> int | None:
        return None


class AbortedStretch:
    """A consumer in a partition that has nothing but aborted records.

    `fetches` is called for each read and returns the next offset to fetch, or None without new statistics.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._tell: Callable[[str], None] = config["stats_cb"]
        self.next_offset: int | None = None
        self.step = 0
        self.records: list[Record | Message] = []

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned = partitions

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return 0, END

    def consume(self, number: int, _seconds: float) -> list[Record | Message]:
        self._statistics()
        found, self.records = self.records[:number], self.records[number:]
        return found

    def poll(self, _seconds: float) -> Record | Message | None:
        return next(iter(self.consume(1, 0)), None)

    def _statistics(self) -> None:
        if self.next_offset is not None:
            self.next_offset += self.step
            partitions = {"0": {"next_offset": self.next_offset}, "-1": {"next_offset": 0}}
            self._tell(json.dumps({"topics": {"raw": {"partitions": partitions}}}))


def reading() -> tuple[AbortedStretch, PartitionReader]:
    made: list[AbortedStretch] = []

    def make(config: dict[str, Any]) -> AbortedStretch:
        made.append(AbortedStretch(config))
        return made[0]

    reader = open_reader(make, {}, "raw", 0, StillClock())
    reader.seek(5)
    return made[0], reader


def test_a_reader_that_fetches_only_aborted_records_is_not_starved() -> None:
    consumer, reader = reading()
    consumer.next_offset, consumer.step = 5, 1_000
    for _ in range(PAST_STARVED):
        assert reader.read(10, 0.2).records == []
        reader.check(END)


@pytest.mark.parametrize("fetched", [None, 700])
def test_a_reader_that_fetches_nothing_is_starved(fetched: int | None) -> None:
    consumer, reader = reading()
    consumer.next_offset = fetched
    for _ in range(PAST_STARVED):
        reader.read(10, 0.2)
    with pytest.raises(BrokerUnavailable, match="nothing of raw/0 is fetched from offset"):
        reader.check(END)


def test_the_next_offset_moves_over_aborted_records_once_the_queue_is_empty() -> None:
    consumer, reader = reading()
    consumer.next_offset = 900
    assert reader.read(10, 0.2).next_offset == 5
    batch = reader.read(10, 0.2)
    assert (batch.next_offset, batch.behind) == (900, 0)


def test_the_next_offset_does_not_pass_records_that_wait_in_the_queue() -> None:
    """Statistics come ahead of the records that they count."""
    consumer, reader = reading()
    assert reader.read(10, 0.2).next_offset == 5
    consumer.next_offset = 900
    consumer.records = [Record(offset) for offset in (20, 21, 22)]
    ends = []
    while True:
        batch = reader.read(1, 0.2)
        ends.append(batch.next_offset)
        if not batch.records:
            break
    assert ends == [21, 22, 23, 23]


def test_statistics_of_the_time_before_a_second_seek_move_nothing() -> None:
    consumer, reader = reading()
    consumer.next_offset = 900
    for _ in range(3):
        reader.read(10, 0.2)
    reader.seek(0)
    offsets = {reader.read(10, 0.2).next_offset for _ in range(5)}
    assert offsets == {0}


def test_a_record_after_the_stretch_is_delivered() -> None:
    consumer, reader = reading()
    consumer.next_offset = 900
    for _ in range(3):
        reader.read(10, 0.2)
    consumer.records = [Record(950)]
    batch = reader.read(10, 0.2)
    assert [record.offset() for record in batch.records] == [950]
    assert batch.next_offset == 951


def test_a_corrupt_batch_is_named_after_what_stands_before_it() -> None:
    """Nothing after it is a record: the client loses its place in the topic."""
    consumer, reader = reading()
    bad = KafkaError(KafkaError._BAD_MSG, "failed CRC32C check")  # noqa: SLF001 (a public name)
    lost = KafkaError(KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001 (a public name)
    consumer.records = [
        Record(5),
        Record(6),
        Message(topic="raw", partition=0, offset=7, error=bad),
        Record(99),
        Message(topic="raw", partition=0, offset=2**60, error=lost),
    ]
    batch = reader.read(10, 0.2)
    assert [record.offset() for record in batch.records] == [5, 6]
    assert (batch.next_offset, batch.behind) == (7, 0)
    for _ in range(2):
        with pytest.raises(RecordCorrupt, match="at offset 7 of raw/0"):
            reader.read(10, 0.2)
