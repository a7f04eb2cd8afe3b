"""Check of an output: is every message there exactly once, unchanged, in order?

The output is read once, in bounded memory but for two arrays. The expected content follows from the traffic. The check
also returns when each record was appended.
"""

import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple
from uuid import uuid4

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from numpy.typing import NDArray

from benchmarks.harness.model import Model
from benchmarks.harness.testbed import client
from benchmarks.harness.traffic import MakeValue, Traffic, key_and_headers, key_of, number_in
from dedupe_ids.origin import strip_origins

_BATCH: Final = 10_000
_SILENCE_SECONDS: Final = 30.0
_CALL_SECONDS: Final = 0.5  # a call waits for as many as it asks for, even behind the last


class Verdict(Model):
    """Messages `expected`, and the faults of those `found`.

    `altered` includes foreign messages.
    """

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
    """The verdict, and when the broker appended each record.

    Times are in order, in seconds since 1970.
    """

    verdict: Verdict
    appended: NDArray[np.float64]


def check_deduplicated(
    bootstrap_servers: str, topic: str, sent: Traffic, partition: int = 0
) -> Output:
    """Judge the output of a worker."""
    times = np.ones(len(sent.first_at), np.int64)
    records = _read(bootstrap_servers, topic, partition)
    return judge(records, times, sent.value, keyed=sent.keyed)


def check_copied(bootstrap_servers: str, topic: str, sent: Traffic, partition: int = 0) -> Output:
    """Judge the output of a loop that copies: each message as often as it was sent.

    Order is not judged: duplicates change the order of the message numbers.
    """
    times = np.bincount(sent.numbers)
    output = judge(_read(bootstrap_servers, topic, partition), times, sent.value)
    return Output(output.verdict.model_copy(update={"reordered": 0}), output.appended)


def check_all_partitions(
    bootstrap_servers: str, topic: str, sent: Traffic, *, partitions: int, deduplicated: bool
) -> Output:
    """Judge the partitions of a topic together; order is judged within each.

    Each message may be in any partition. Without `deduplicated` each message must be there as often as it was sent, and
    order is not judged.
    """
    records = chain.from_iterable(
        _read(bootstrap_servers, topic, each) for each in range(partitions)
    )
    times = np.ones(len(sent.first_at), np.int64) if deduplicated else np.bincount(sent.numbers)
    verdict, appended = judge(records, times, sent.value, keyed=sent.keyed)
    if not deduplicated:
        verdict = verdict.model_copy(update={"reordered": 0})
    return Output(verdict, np.sort(appended))


def check_routed(bootstrap_servers: str, topic: str, sent: Traffic, *, partitions: int) -> Output:
    """Judge a repartition topic: each message as often as it was sent.

    A record without an origin, and one that is not in the partition of its copies, counts as altered.
    """
    found = (_read(bootstrap_servers, topic, each) for each in range(partitions))
    records, strays = without_origins(chain.from_iterable(found), len(sent.first_at))
    verdict, appended = judge(records, np.bincount(sent.numbers), sent.value, keyed=sent.keyed)
    update = {"reordered": 0, "altered": verdict.altered + len(strays)}
    return Output(verdict.model_copy(update=update), np.sort(appended))


def without_origins(
    records: Iterable[Message], messages: int
) -> tuple[Iterator[Message], list[Message]]:
    """Return the records as their producers wrote them, and a list of strays.

    The list fills while the records are read: those without an origin, and those that are not where a copy is.
    """
    strays: list[Message] = []
    first_in = np.full(messages, -1, np.int64)

    def stripped() -> Iterator[Message]:
        remaining = iter(records)
        while batch := [*islice(remaining, _BATCH)]:
            for record, place in zip(batch, strip_origins(batch).which.tolist(), strict=True):
                number, partition = number_in(record.value()), record.partition() or 0
                if 0 <= number < messages:
                    if first_in[number] < 0:
                        first_in[number] = partition
                    if place < 0 or first_in[number] != partition:
                        strays.append(record)
                yield record

    return stripped(), strays


def judge(
    records: Iterable[Message],
    times: NDArray[np.int64],
    value_of: MakeValue,
    *,
    keyed: bool = True,
) -> Output:
    """Judge records among which message number n must be `times[n]` times."""
    seen = np.zeros(len(times), np.int64)
    appended: list[int] = []
    altered = reordered = 0
    newest = -1
    partition: int | None = None
    for record in records:
        if record.partition() != partition:  # order is judged within a partition
            partition, newest = record.partition(), -1
        appended.append(record.timestamp()[1])
        value = record.value()
        number = number_in(value)
        message_id = key_of(number)
        if (
            not 0 <= number < len(seen)
            or value != value_of(number, message_id)
            or (record.key(), record.headers()) != key_and_headers(message_id, keyed=keyed)
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


def _read(bootstrap_servers: str, topic: str, partition: int) -> Iterator[Message]:
    """Yield every committed record of a partition.

    Raises KafkaException, or TimeoutError if neither a record nor the end arrives.
    """
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
        consumer.assign([TopicPartition(topic, partition, 0)])
        heard = time.monotonic()
        while True:
            messages = consumer.consume(_BATCH, _CALL_SECONDS)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_SECONDS:
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
