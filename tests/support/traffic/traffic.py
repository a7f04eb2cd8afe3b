"""Raw traffic of producers, a function of a seed, and senders for it.

The timestamps are of the year 2023. So a topic must keep records for ever (retention.ms=-1, which the fixture `streams`
sets), or it loses them within minutes.
"""

import json
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from threading import Event, Thread
from typing import Any, Self, cast
from uuid import UUID, uuid4
from zlib import crc32

from confluent_kafka import KafkaError, Producer

from tests.support.checker import history
from tests.support.checker.record import Message
from tests.support.patience import HANG_SECONDS

ID_HEADER = "message-id"
ID_PATH = "$.order.id"
ID_STEPS = ("order", "id")
START_MS = 1_700_000_000_000

_TURNS = 12
_NEAR = 50
_LARGEST_REQUEST_BYTES = 100 << 20


def retries(
    seed: int,
    count: int,
    *,
    partitions: int = 1,
    repeat_rate: float = 0.2,
    near_share: float = 0.5,
    value_bytes: int = 200,
    start: int = 0,
) -> Iterator[Message]:
    """Yield `count` messages of producers that repeat themselves.

    Each message stands for an order: `start`, `start + 1` and so on. The order's id is in the key, in the header
    ID_HEADER and at ID_PATH of the JSON value. A `repeat_rate` of the messages repeats an earlier message, `near_share`
    of these one of the last 50. Half of the repeats are identical but for the timestamp, the others differ in value:
    only the first message of an order may pass.
    """
    rng = random.Random(seed)
    sent: list[int] = []
    for position in range(count):
        if sent and rng.random() < repeat_rate:
            earliest = max(0, position - _NEAR) if rng.random() < near_share else 0
            number = sent[rng.randrange(earliest, position)]
            attempt = rng.randrange(2)
        else:
            number, attempt = start, 0
            start += 1
        sent.append(number)
        message = order(
            seed, number, attempt=attempt, partitions=partitions, value_bytes=value_bytes
        )
        yield replace(message, timestamp_ms=START_MS + position)


def order(
    seed: int, number: int, *, attempt: int = 0, partitions: int = 1, value_bytes: int = 200
) -> Message:
    """Return a message of `retries`: an order always has the same id and partition.

    Orders take turns in the partitions. The id is one for which librdkafka chooses that partition, if there are
    1, 2, 3, 4, 6 or 12.
    """
    rng = random.Random(f"{seed}/{number}")
    identity = str(UUID(int=rng.getrandbits(128), version=4))
    while (crc32(identity.encode()) - number) % _TURNS:
        identity = str(UUID(int=rng.getrandbits(128), version=4))
    content = {"order": {"id": identity, "number": number}, "attempt": attempt, "fill": ""}
    fill = max(0, value_bytes - len(json.dumps(content)))
    content["fill"] = rng.randbytes(fill // 2 + 1).hex()[:fill]
    return Message(
        partition=number % partitions,
        key=identity.encode(),
        value=json.dumps(content).encode(),
        headers=((ID_HEADER, identity.encode()), ("source", b"web")),
        timestamp_ms=START_MS + number,
    )


class SendError(AssertionError):
    """Kafka did not accept a message for the raw topic."""


class Sender:
    """A producer that keeps the order and checks every delivery.

    With a `transactional_id` it sends one transaction, which begins at once.
    """

    def __init__(
        self, bootstrap_servers: str, topic: str, *, transactional_id: str | None = None
    ) -> None:
        self._topic = topic
        self._failures: list[KafkaError] = []
        self.delivered = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 5,
                "message.max.bytes": _LARGEST_REQUEST_BYTES,
                **({"transactional.id": transactional_id} if transactional_id else {}),
            }
        )
        if transactional_id:
            self._producer.init_transactions(HANG_SECONDS)
            self._producer.begin_transaction()

    def send(self, message: Message) -> None:
        """Queue a message for its partition; wait while the queue is full."""
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=message.value,
                    key=message.key,
                    partition=message.partition,
                    headers=cast("Any", list(message.headers)),
                    timestamp=message.timestamp_ms or 0,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def flush(self, deadline_seconds: float = HANG_SECONDS) -> None:
        """Wait until all messages are delivered. Raises SendError otherwise."""
        waiting = self._producer.flush(deadline_seconds)
        if self._failures:
            raise SendError(
                f"{self._topic}: {len(self._failures)} messages refused: {self._failures[0].str()}"
            )
        if waiting:
            raise SendError(f"{self._topic}: {waiting} messages not out in {deadline_seconds} s")

    def end_transaction(self, *, commit: bool) -> None:
        """Flush, then commit or abort the transaction."""
        self.flush()
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        end(HANG_SECONDS)

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failures.append(error)
        else:
            self.delivered += 1


def produce(bootstrap_servers: str, topic: str, messages: Iterable[Message]) -> int:
    """Send messages, each to its own partition; return how many were delivered.

    Raises SendError if a message was not delivered.
    """
    sender = Sender(bootstrap_servers, topic)
    for message in messages:
        sender.send(message)
    sender.flush()
    return sender.delivered


def produce_in_transaction(
    bootstrap_servers: str, topic: str, messages: Iterable[Message], *, commit: bool
) -> None:
    """Send messages in a transaction, end it, and wait until readers see that.

    Raises SendError, and TimeoutError if another transaction stays open.
    """
    sender = Sender(bootstrap_servers, topic, transactional_id=f"raw-{uuid4().hex}")
    for message in messages:
        sender.send(message)
    sender.end_transaction(commit=commit)
    history.wait_until_settled(bootstrap_servers, topic)


class PacedProducer:
    """Sends messages in the background at a steady rate.

    It is a context manager whose exit stops the thread; `finish` waits for the last message instead.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        messages: Iterable[Message],
        *,
        messages_per_second: float,
    ) -> None:
        self._sender = Sender(bootstrap_servers, topic)
        self._messages = messages
        self._interval_seconds = 1 / messages_per_second
        self._stop = Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, name=f"producer of {topic}", daemon=True)

    @property
    def delivered(self) -> int:
        """Return how many messages Kafka has accepted so far."""
        return self._sender.delivered

    def finish(self, deadline_seconds: float = HANG_SECONDS) -> None:
        """Wait until all messages are delivered. Raises SendError if that is too late."""
        self._thread.join(deadline_seconds)
        if self._thread.is_alive():
            raise SendError(f"only {self.delivered} messages after {deadline_seconds} s")
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(HANG_SECONDS)

    def _run(self) -> None:
        try:
            started = time.monotonic()
            for position, message in enumerate(self._messages):
                due = started + position * self._interval_seconds
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    break
                self._sender.send(message)
            self._sender.flush()
        except Exception as error:  # noqa: BLE001 # raised again by finish, in the test's thread
            self._error = error
