"""Kafka's clients in memory: what a consumer is given to read, and what a producer has sent."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Message, TopicPartition

TIME_MS: Final = 1_800_000_000_000


def record(offset: int, key: bytes, value: bytes, *, time_ms: int = TIME_MS) -> Message:
    """Return an input record of partition 0."""
    return Message(
        topic="orders", partition=0, offset=offset, key=key, value=value, timestamp=(1, time_ms)
    )


class MemoryConsumer:
    """Has all its records ready at the first call."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.waiting: list[Message] = []
        self.end = 0

    def give(self, records: Sequence[Message]) -> None:
        self.waiting.extend(records)
        self.end += len(records)

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert len(partitions) == 1

    def consume(self, most: int, _: float) -> list[Message]:
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return taken

    def get_watermark_offsets(self, _: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return 0, self.end

    def consumer_group_metadata(self) -> object:
        return object()


class MemoryProducer:
    """Acknowledges at `poll` and `flush`, as librdkafka does. `sent` are (topic, key) of all records."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.sent: list[tuple[str, bytes | None]] = []
        self.committed: list[int] = []
        self._reports: list[Callable[[], None]] = []
        self._position = 0

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int,
        on_delivery: Callable[[None, Message], None] | None = None,
        *_: object,
        **__: object,
    ) -> None:
        self.sent.append((topic, key))
        if topic == "orders-clean":
            done = Message(topic=topic, partition=partition, offset=self._position, value=value)
            self._position += 1
            if on_delivery:
                self._reports.append(lambda: on_delivery(None, done))

    def poll(self, _: float) -> int:
        reports, self._reports = self._reports, []
        for report in reports:
            report()
        return len(reports)

    def flush(self, _: float) -> int:
        self.poll(0)
        return 0

    def begin_transaction(self) -> None:
        assert not self._reports

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], *_: object) -> None:
        self.committed.extend(each.offset for each in offsets)

    def commit_transaction(self, _: float) -> None:
        self.poll(0)
