"""The judge: is every message sent in the output exactly once, unchanged and in order? And when did each arrive?

The output is read once, in bounded memory but for two arrays; what must stand there follows from the traffic.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import uuid4

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from benchmarks.testbed import client
from benchmarks.traffic import HEADERS, Traffic, key_of, number_in, value_of

_BATCH: Final = 10_000
_SILENCE_SECONDS: Final = 30.0


class Verdict(BaseModel):
    """Messages: `expected` to be there, and of the `found` ones what is wrong. `altered` counts foreign ones too."""

    model_config = ConfigDict(frozen=True)

    expected: int
    found: int
    lost: int
    twice: int
    altered: int
    reordered: int

    @property
    def is_clean(self) -> bool:
        """Nothing is wrong."""
        return not (self.lost or self.twice or self.altered or self.reordered)


class Output(NamedTuple):
    """The verdict, and when the broker appended each record, in its order and in seconds since 1970."""

    verdict: Verdict
    appended: NDArray[np.float64]


def check_deduplicated(bootstrap_servers: str, topic: str, sent: Traffic) -> Output:
    """Judge the output of a worker."""
    return _check(bootstrap_servers, topic, np.ones(len(sent.first_at), np.int64))


def check_copied(bootstrap_servers: str, topic: str, sent: Traffic) -> Output:
    """Judge the output of a loop that passes everything on: each message as often as it was sent.

    Order is not judged: it differs from that of the message's numbers by what is repeated.
    """
    output = _check(bootstrap_servers, topic, np.bincount(sent.numbers))
    return Output(output.verdict.model_copy(update={"reordered": 0}), output.appended)


def _check(bootstrap_servers: str, topic: str, times: NDArray[np.int64]) -> Output:
    """Judge a topic that must hold message number n `times[n]` times."""
    seen = np.zeros(len(times), np.int64)
    appended: list[int] = []
    altered = reordered = 0
    newest = -1
    for record in _read(bootstrap_servers, topic):
        appended.append(record.timestamp()[1])
        key, value = record.key(), record.value()
        number = number_in(value)
        if (
            not 0 <= number < len(seen)
            or key != key_of(number)
            or value != value_of(number, key)
            or record.headers() != HEADERS
        ):
            altered += 1
            continue
        reordered += not seen[number] and number < newest
        seen[number] += 1
        newest = max(newest, number)
    verdict = Verdict(
        expected=int(times.sum()),
        found=len(appended),
        lost=int(np.maximum(0, times - seen).sum()),
        twice=int(np.maximum(0, seen - times).sum()),
        altered=altered,
        reordered=reordered,
    )
    return Output(verdict, np.array(appended, np.float64) / 1000)


def _read(bootstrap_servers: str, topic: str) -> Iterator[Message]:
    """Every committed record of partition 0. Raises KafkaException, or TimeoutError if it does not come to an end."""
    consumer = Consumer(
        {
            **client(bootstrap_servers),
            "group.id": f"check-{uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            messages = consumer.consume(_BATCH, _SILENCE_SECONDS)
            if not messages:
                raise TimeoutError(
                    f"{topic}: nothing more for {_SILENCE_SECONDS:.0f} s, nor its end"
                )
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public name)
                    return
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
