"""Producer process that sends messages at a steady rate.

`python -m benchmarks.harness.pacer BOOTSTRAP TOPIC COUNT RATE RESULT`: COUNT messages of the usual kind to partition 0.
Message i is due i / RATE seconds after the start; each millisecond, all messages that are due are sent. It is an
ordinary producer with the client's default linger. Its messages are made beforehand, so that it keeps high rates.
"""

import gc
import time
from pathlib import Path
from typing import Final

import click
import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

from benchmarks.harness.model import Model
from benchmarks.harness.testbed import client
from benchmarks.harness.traffic import HEADERS, key_of, traffic, value_of

_STEP_SECONDS: Final = 0.001
_FLUSH_SECONDS: Final = 30.0


class Pace(Model):
    """The schedule, and the milliseconds by which messages were sent late."""

    start_ns: int
    """When message 0 was due, on this machine's monotonic clock, which all its processes share."""
    rate: float
    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    seconds: float
    cpu_seconds: float
    """Used while sending."""

    def due_ns(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """When the messages at these positions were due, on the same clock."""
        return self.start_ns + (positions * (1e9 / self.rate)).astype(np.int64)


@click.command
@click.argument("bootstrap_servers")
@click.argument("topic")
@click.argument("count", type=int)
@click.argument("rate", type=float)
@click.argument("result", type=click.Path(path_type=Path))
def main(bootstrap_servers: str, topic: str, count: int, rate: float, result: Path) -> None:
    """Send, and write a Pace to RESULT."""
    messages = [(key_of(n), value_of(n, key_of(n))) for n in traffic(count).numbers.tolist()]
    gc.freeze()  # or each garbage collection scans all of them
    producer = Producer(
        {
            **client(bootstrap_servers),
            "compression.type": "lz4",
            "enable.idempotence": True,
            "queue.buffering.max.messages": len(messages),
        }
    )
    producer.list_topics(topic, timeout=_FLUSH_SECONDS)  # so that the first message does not wait
    result.write_text(_send(producer, topic, messages, rate).model_dump_json())


def _send(producer: Producer, topic: str, messages: list[tuple[bytes, bytes]], rate: float) -> Pace:
    sent_ns = np.zeros(len(messages), np.int64)
    produce, clock = producer.produce, time.monotonic_ns
    cpu_before = time.process_time()
    start, position = clock(), 0
    while position < len(messages):
        end = min(len(messages), int((clock() - start) * rate / 1e9) + 1)
        if end == position:
            producer.poll(0)
            time.sleep(_STEP_SECONDS)
            continue
        for key, value in messages[position:end]:
            produce(topic, value, key, 0, headers=HEADERS)
        sent_ns[position:end] = clock()
        position = end
    seconds = (clock() - start) / 1e9
    cpu_seconds = time.process_time() - cpu_before
    if waiting := producer.flush(_FLUSH_SECONDS):
        raise SystemExit(f"{waiting} messages not taken in {_FLUSH_SECONDS:.0f} s")
    pace = Pace(
        start_ns=start,
        rate=rate,
        late_p50_ms=0.0,
        late_p99_ms=0.0,
        late_max_ms=0.0,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
    )
    late_ms = (sent_ns - pace.due_ns(np.arange(len(messages)))) / 1e6
    p50, p99, most = np.percentile(late_ms, [50, 99, 100]).tolist()
    return pace.model_copy(update={"late_p50_ms": p50, "late_p99_ms": p99, "late_max_ms": most})


if __name__ == "__main__":
    main()
