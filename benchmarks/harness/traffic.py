"""Messages that are a function of a seed, so that the checker needs no copy.

Message number n has a UUID text as its id, a JSON value that names n, of exactly 512 bytes or another size, and one
header. The id is the key; in traffic that is not keyed it is the header, and there is no key. A share of the messages
are duplicates of an earlier message, byte for byte: half of them of one of the last 1,000 sent, half of any earlier
one.
"""

import random
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
from confluent_kafka import KafkaError, Producer
from numpy.typing import NDArray

from benchmarks.harness.testbed import client

MakeValue = Callable[[int, bytes], bytes]
"""Makes the value of a message from its number and its key."""

VALUE_BYTES: Final = 512
REPEAT_RATE: Final = 0.05
NEAR_SHARE: Final = 0.5
Headers = list[tuple[str, str | bytes | None]]
HEADERS: Final[Headers] = [("source", b"web")]
ID_HEADER: Final = "id"

_SEED: Final = 20261121
_NEAR: Final = 1_000
_FILL_BYTES: Final = 139  # of the value are random letters; the rest is JSON that lz4 can shorten
_POOL: Final = bytes(random.Random(_SEED).choices(range(ord("a"), ord("z") + 1), k=1 << 20))
_ITEMS: Final = [
    b'{"sku":"%s","name":"%s","quantity":%d,"price":{"amount":%d,"currency":"USD"},"url":"https://example.org/shop/p"}'
    % (_POOL[at : at + 12], _POOL[at + 12 : at + 34], at % 9 + 1, at % 9_000 + 1_000)
    for at in range(0, 1 << 16, 34)
]
_EVENTS: Final = (b"order.created", b"order.paid", b"cart.updated", b"page.viewed", b"user.signed")
_NUMBER_DIGITS: Final = 12
_NUMBER_AT: Final = slice(len(b'{"number":"'), len(b'{"number":"') + _NUMBER_DIGITS)
_CHUNK: Final = 10_000
_CHUNK_OF_ALL: Final = 100_000  # messages that are sent to all partitions in turn
_FLUSH_SECONDS: Final = 120.0


def key_of(number: int) -> bytes:
    """Return the UUID (version 4) of a message, as text."""
    h = blake2b(b"%d:%d" % (_SEED, number), digest_size=16).hexdigest()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}".encode()


def key_and_headers(message_id: bytes, *, keyed: bool) -> tuple[bytes | None, Headers]:
    """Return the key and the headers of the message with this id."""
    return (message_id, HEADERS) if keyed else (None, [(ID_HEADER, message_id)])


def value_of(number: int, key: bytes, size: int = VALUE_BYTES) -> bytes:
    """Return the value of a message: `size` bytes of JSON, at least 128.

    A quarter of it is random letters.
    """
    start = number * 7919 % (len(_POOL) - VALUE_BYTES)
    if size < VALUE_BYTES:
        head = b'{"number":"%012d","messageId":"%s","anonymousId":"' % (number, key)
        return head + _POOL[start : start + size - len(head) - len(b'"}')] + b'"}'
    head = (
        b'{"number":"%012d","messageId":"%s","type":"%s","timestamp":"2026-11-21T00:%02d:%02d.%03dZ",'
        b'"context":{"library":{"name":"analytics-web","version":"4.1.0"},"locale":"en-US","userAgent":'
        b'"Mozilla/5.0 (X11; Linux x86_64)","page":{"path":"/products/%d","referrer":'
        b'"https://example.org/"}},"userId":"user-%06d","anonymousId":"%s"'
        % (
            number,
            key,
            _EVENTS[number % len(_EVENTS)],
            number // 60_000 % 60,
            number // 1_000 % 60,
            number % 1_000,
            number % 977,
            number % 100_003,
            _POOL[start : start + _FILL_BYTES],
        )
    )
    if size > VALUE_BYTES:
        head += b',"items":['
        count = (size - len(head) - len(b"]}")) // len(_ITEMS[0] + b",")
        first = start % (len(_ITEMS) - count)
        head += b",".join(_ITEMS[first : first + count]) + b"]"
    return head + b" " * (size - 1 - len(head)) + b"}"


def number_in(value: bytes | None) -> int:
    """Return the number that a value names; -1 if it names none."""
    digits = (value or b"")[_NUMBER_AT]
    return int(digits) if len(digits) == _NUMBER_DIGITS and digits.isdigit() else -1


def tiny_value(_number: int, _key: bytes) -> bytes:
    """Return a value for messages that are only sent for their ids."""
    return b"{}"


class Traffic(NamedTuple):
    """The messages at each position, and the first position of each message.

    `numbers[i]` is the message sent at position i, `first_at[n]` the position at which message n is sent first.
    """

    numbers: NDArray[np.int64]
    first_at: NDArray[np.int64]
    value: MakeValue = value_of
    keyed: bool = True


def traffic(
    count: int,
    *,
    repeat_rate: float = REPEAT_RATE,
    near_share: float = NEAR_SHARE,
    value_bytes: int = VALUE_BYTES,
    keyed: bool = True,
) -> Traffic:
    """Return the traffic of `count` positions.

    `near_share` of the duplicates are of one of the last 1,000 sent.
    """
    rng = np.random.default_rng(_SEED)
    is_repeat = rng.random(count) < repeat_rate
    is_repeat[0] = False
    numbers = np.cumsum(~is_repeat) - 1
    positions = np.flatnonzero(is_repeat)
    lowest = np.where(rng.random(len(positions)) < near_share, np.maximum(0, positions - _NEAR), 0)
    sources = rng.integers(lowest, positions)
    # In order, because a duplicate may be of a duplicate.
    for position, source in zip(positions.tolist(), sources.tolist(), strict=True):
        numbers[position] = numbers[source]
    return Traffic(numbers, np.flatnonzero(~is_repeat), partial(value_of, size=value_bytes), keyed)


class SendFailed(Exception):
    """The broker did not take what a benchmark is about to measure with."""


class Sender:
    """A usual producer for one partition: lz4, batches of 128 KiB."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partition: int = 0, *, keyed: bool = True
    ) -> None:
        self._topic, self._partition, self._keyed = topic, partition, keyed
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            {
                **client(bootstrap_servers),
                "compression.type": "lz4",
                "enable.idempotence": True,
                "batch.size": 128 << 10,
                "linger.ms": 20,
            }
        )

    def send(self, numbers: NDArray[np.int64], value: MakeValue = value_of) -> None:
        """Send messages in order and wait for them. Raises SendFailed."""
        for start in range(0, len(numbers), _CHUNK):
            for number in numbers[start : start + _CHUNK].tolist():
                message_id = key_of(number)
                self._produce(message_id, value(number, message_id))
        waiting = self._producer.flush(_FLUSH_SECONDS)
        if self._failures or waiting:
            why = self._failures[0].str() if self._failures else "no answer"
            raise SendFailed(f"{self._topic}: {len(self._failures) or waiting} messages: {why}")

    def _produce(self, message_id: bytes, value: bytes) -> None:
        key, headers = key_and_headers(message_id, keyed=self._keyed)
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, self._partition, self._on_delivery, headers=headers
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failures.append(error)


def send_to(
    bootstrap_servers: str, topic: str, sent: Traffic, partitions: NDArray[np.integer[Any]]
) -> None:
    """Send each message to its partition; all partitions fill together. Raises SendFailed."""
    senders = [
        Sender(bootstrap_servers, topic, each, keyed=sent.keyed)
        for each in range(int(partitions.max()) + 1)
    ]
    for start in range(0, len(sent.numbers), _CHUNK_OF_ALL):
        part = slice(start, start + _CHUNK_OF_ALL)
        for partition, sender in enumerate(senders):
            sender.send(sent.numbers[part][partitions[part] == partition], sent.value)
