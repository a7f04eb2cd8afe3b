"""Receives what the pacer sent, and notes when. A process of its own.

`python -m benchmarks.receiver BOOTSTRAP TOPIC COUNT RESULT`: reads the first COUNT committed records of partition 0
(with `--from OFFSET` those from there on), one poll each, and writes a numpy file of shape (2, COUNT): when each was
sent and received, in nanoseconds of the monotonic clock, and its own CPU seconds beside it (RESULT.cpu).
"""

import time
from pathlib import Path
from typing import Final, cast
from uuid import uuid4

import click
import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.testbed import client

_SILENCE_SECONDS: Final = 60.0


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
        }
    )
    consumer.assign([TopicPartition(topic, 0, first)])
    times = np.zeros((2, count), np.int64)
    for position in range(count):
        record = consumer.poll(_SILENCE_SECONDS)
        now = time.monotonic_ns()
        if record is None:
            raise SystemExit(f"{topic}: nothing for {_SILENCE_SECONDS:.0f} s after {position}")
        if (error := record.error()) is not None:
            raise KafkaException(error)
        ((_, sent),) = list(record.headers() or ())
        times[:, position] = int.from_bytes(cast("bytes", sent), "big"), now
    consumer.close()
    np.save(result, times)
    result.with_suffix(".cpu").write_text(str(time.process_time()))


if __name__ == "__main__":
    main()
