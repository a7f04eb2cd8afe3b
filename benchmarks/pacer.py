"""Sends messages at a steady rate, each with the time of its sending. A process of its own.

`python -m benchmarks.pacer BOOTSTRAP TOPIC COUNT RATE RESULT`: COUNT messages to partition 0 at RATE a second, in steps
of a millisecond. The header `sent` holds the time of the call that sent the message: 8 bytes, nanoseconds of this
machine's monotonic clock, which all its processes share. It is an ordinary producer with the client's default linger.
"""

import time
from pathlib import Path
from typing import Final

import click
import numpy as np
from confluent_kafka import Producer
from pydantic import BaseModel, ConfigDict

from benchmarks.testbed import client
from benchmarks.traffic import key_of, traffic, value_of

SENT_HEADER: Final = "sent"

_STEP_SECONDS: Final = 0.001
_FLUSH_SECONDS: Final = 30.0


class Pace(BaseModel):
    """How well the pace was kept: milliseconds by which messages were sent late; CPU seconds used while sending."""

    model_config = ConfigDict(frozen=True)

    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    seconds: float
    cpu_seconds: float


@click.command
@click.argument("bootstrap_servers")
@click.argument("topic")
@click.argument("count", type=int)
@click.argument("rate", type=float)
@click.argument("result", type=click.Path(path_type=Path))
def main(bootstrap_servers: str, topic: str, count: int, rate: float, result: Path) -> None:
    """Send, and write a Pace to RESULT."""
    messages = [(key_of(n), value_of(n, key_of(n))) for n in traffic(count).numbers.tolist()]
    producer = Producer(
        {
            **client(bootstrap_servers),
            "compression.type": "lz4",
            "enable.idempotence": True,
        }
    )
    producer.list_topics(topic, timeout=_FLUSH_SECONDS)  # so that the first message does not wait
    result.write_text(_send(producer, topic, messages, rate).model_dump_json())


def _send(producer: Producer, topic: str, messages: list[tuple[bytes, bytes]], rate: float) -> Pace:
    late = np.zeros(len(messages))
    clock = time.monotonic_ns
    cpu_before = time.process_time()
    start = clock()
    interval_ns = 1e9 / rate
    for position, (key, value) in enumerate(messages):
        due = start + position * interval_ns
        while (ahead := due - clock()) > 0:
            producer.poll(0)
            time.sleep(max(ahead / 1e9, _STEP_SECONDS))
        now = clock()
        late[position] = now - due
        headers = [(SENT_HEADER, now.to_bytes(8, "big"))]
        producer.produce(topic, value, key, 0, headers=headers)  # type: ignore[arg-type] # tuples will do
    seconds = (clock() - start) / 1e9
    cpu_seconds = time.process_time() - cpu_before
    if waiting := producer.flush(_FLUSH_SECONDS):
        raise SystemExit(f"{waiting} messages not taken in {_FLUSH_SECONDS:.0f} s")
    p50, p99, most = np.percentile(late / 1e6, [50, 99, 100]).tolist()
    return Pace(
        late_p50_ms=p50,
        late_p99_ms=p99,
        late_max_ms=most,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
    )


if __name__ == "__main__":
    main()
