"""A producer that sends duplicates, as clients on flaky networks do.

Half of the duplicates are retries: the acknowledgement was lost, so the same record follows immediately,
byte for byte. The other half are replays: a batch is sent again much later, as after a crash before
the progress was saved. A replayed record has a new timestamp.

A flight's id is the key of its records. Scattered records have it in a header instead, and no key.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from random import Random
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from examples.flights import data

ID_HEADER = "flight-id"
"""The header with the id of a scattered record, as scattered.yaml names it."""

_LARGEST_BATCH = 1000
_REPORT_EVERY = 1000
_FLUSH_SECONDS = 60.0
_BY_KEY = -1
_CONFIG = {
    "acks": "all",
    "compression.type": "lz4",
    # The client's own retries cause no duplicates: every duplicate in the topic is planned.
    "enable.idempotence": True,
    "linger.ms": 20,
    "log_level": 2,  # it retries automatically, and permanent failures are raised
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
}


class NotSent(Exception):
    """Kafka did not accept a record."""


class Kind(StrEnum):
    """The reason for which a record is sent."""

    FIRST = "first"
    RETRY = "retry"
    REPLAY = "replay"


class Send(NamedTuple):
    """One record to send: the index of its message in the data, and the reason.

    A scattered record has a `partition`; the partition of the others follows from their key.
    """

    row: int
    kind: Kind
    partition: int | None = None


def plan(count: int, repeats: float, seed: int) -> list[Send]:
    """Plan the order in which `count` messages are sent, with their duplicates.

    `repeats` is the expected number of duplicates of each message, below 1. A message may have
    several duplicates.
    """
    random = Random(seed)
    replays = _replays(count, repeats / 2, random)
    sends = []
    for row in range(count):
        sends.append(Send(row, Kind.FIRST))
        while random.random() < repeats / 2:
            sends.append(Send(row, Kind.RETRY))
        for batch in replays[row]:
            sends += [Send(each, Kind.REPLAY) for each in batch]
    return sends


def scatter(sends: Iterable[Send], partitions: int, seed: int) -> list[Send]:
    """Choose a random partition for each record, as clients do for a record without a key.

    It is chosen here, not by the client, so that a seed always gives the same partitions, and the demo knows how many
    duplicates the workers cannot recognise.
    """
    random = Random(seed)
    return [send._replace(partition=random.randrange(partitions)) for send in sends]


def repeats_in_another_partition(sends: Iterable[Send]) -> int:
    """Count the scattered duplicates that are the first copy of their message in their partition."""
    sent = list(sends)
    return len({(send.row, send.partition) for send in sent}) - len({send.row for send in sent})


def _replays(count: int, share: float, random: Random) -> defaultdict[int, list[range]]:
    """Choose the batches that are replayed, by the message after which they are."""
    size = max(1, min(_LARGEST_BATCH, count // 100))
    due = defaultdict(list)
    for _ in range(round(share * count / size)):
        start = random.randrange(count - size + 1)
        later = start + size + random.randint(count // 20, count // 2)
        due[min(later, count - 1)].append(range(start, start + size))
    return due


class FlakyProducer:
    """Sends planned records, and waits for all acknowledgements at the end."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **_CONFIG})
        self._topic = topic
        self._refused: KafkaError | None = None
        self._timestamp_ms = 0
        self.sent = 0

    def send(
        self, messages: Sequence[data.Message], sends: Sequence[Send], report: Callable[[], None]
    ) -> None:
        """Send records of `messages`, and wait for their acknowledgements.

        Calls `report` every 1,000 records and at the end.

        Raises:
            NotSent: Kafka did not accept a record.
        """
        for send in sends:
            self._produce(messages[send.row], send)
            self.sent += 1
            if self.sent % _REPORT_EVERY == 0:
                self._producer.poll(0)
                report()
        waiting = self._producer.flush(_FLUSH_SECONDS)
        report()
        if waiting or self._refused:
            why = self._refused or f"{waiting:,} records not acknowledged in {_FLUSH_SECONDS:.0f} s"
            raise NotSent(f"Sending to topic {self._topic} failed: {why}. Run the demo again.")

    def _produce(self, message: data.Message, send: Send) -> None:
        if send.kind is not Kind.RETRY:
            self._timestamp_ms = time.time_ns() // 1_000_000
        keyed = send.partition is None
        headers: list[tuple[str, str | bytes | None]] = [("carrier", message.carrier)]
        if not keyed:
            headers.append((ID_HEADER, message.key))
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=message.key if keyed else None,
                    value=message.value,
                    partition=_BY_KEY if send.partition is None else send.partition,
                    timestamp=self._timestamp_ms,
                    headers=headers,
                    on_delivery=self._delivered,
                )
            except BufferError:  # its queue is full
                self._producer.poll(0.1)
            else:
                return

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._refused = self._refused or error
