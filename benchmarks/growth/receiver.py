"""Consumer process that records which messages arrive in some partitions, and when, until it is told to end.

`python -m benchmarks.growth.receiver BOOTSTRAP TOPIC RESULT PARTITION:OFFSET…` reads committed records. On SIGTERM it
reads what is left, and writes a numpy file of shape (2, n) to RESULT: the message numbers, and the times at which they
were received, in nanoseconds of the monotonic clock.
"""

import signal
import time
from array import array
from pathlib import Path
from threading import Event
from typing import Final
from uuid import uuid4

import click
import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.harness.testbed import client
from benchmarks.harness.traffic import number_in

_SILENCE_SECONDS: Final = 1.0
_MOST_AT_ONCE: Final = 10_000


@click.command
@click.argument("bootstrap_servers")
@click.argument("topic")
@click.argument("result", type=click.Path(path_type=Path))
@click.argument("places", nargs=-1, required=True)
def main(bootstrap_servers: str, topic: str, result: Path, places: tuple[str, ...]) -> None:
    """Receive, and write to RESULT."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = Consumer(
        {
            **client(bootstrap_servers),
            "group.id": f"receiver-{uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 5,
        }
    )
    starts = [map(int, place.split(":")) for place in places]
    consumer.assign([TopicPartition(topic, each, offset) for each, offset in starts])
    numbers, times = _receive(consumer, stop)
    consumer.close()
    with result.open("wb") as file:
        np.save(file, np.array([numbers, times], np.int64))


def _receive(consumer: Consumer, stop: Event) -> tuple["array[int]", "array[int]"]:
    numbers, times = array("q"), array("q")
    while True:
        first = consumer.poll(_SILENCE_SECONDS)
        if first is None:
            if stop.is_set():
                return numbers, times
            continue
        records = [first, *consumer.consume(_MOST_AT_ONCE, 0)]
        now = time.monotonic_ns()
        for record in records:
            if (error := record.error()) is not None:
                raise KafkaException(error)
            numbers.append(number_in(record.value()))
            times.append(now)


if __name__ == "__main__":
    main()
