"""Consumer process that records when the pacer's messages arrive.

`python -m benchmarks.harness.receiver BOOTSTRAP TOPIC COUNT RESULT` reads the first COUNT committed records of
partition 0, or with `--from OFFSET` those from that offset on. It writes a numpy file of shape (COUNT,): the time at
which each was received, in nanoseconds of the monotonic clock; and its own CPU seconds to RESULT.cpu.
"""

import time
from pathlib import Path
from typing import Final
from uuid import uuid4

import click
import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.harness.testbed import client

_SILENCE_SECONDS: Final = 60.0
_MOST_AT_ONCE: Final = 10_000


@click.command
@click.argument("bootstrap_servers")
@click.argument("topic")
@click.argument("count", type=int)
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--from", "first", type=int, default=0)
def main(bootstrap_servers: str, topic: str, count: int, result: Path, first: int) -> None:
    """Receive, and write to RESULT."""
    consumer = Consumer(
        {
            **client(bootstrap_servers),
            "group.id": f"receiver-{uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, 0, first)])
    received = np.zeros(count, np.int64)
    position = 0
    while position < count:
        arrived = _arrived(consumer, min(_MOST_AT_ONCE, count - position))
        if not arrived:
            raise SystemExit(f"{topic}: nothing for {_SILENCE_SECONDS:.0f} s after {position}")
        received[position : position + arrived] = time.monotonic_ns()
        position += arrived
    consumer.close()
    np.save(result, received)
    result.with_suffix(".cpu").write_text(str(time.process_time()))


def _arrived(consumer: Consumer, most: int) -> int:
    """Return the number of records that have arrived, at least one unless it is late.

    Raises KafkaException.
    """
    first = consumer.poll(_SILENCE_SECONDS)
    records = [] if first is None else [first, *consumer.consume(most - 1, 0)]
    for record in records:
        if (error := record.error()) is not None:
            raise KafkaException(error)
    return len(records)


if __name__ == "__main__":
    main()
