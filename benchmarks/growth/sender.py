"""Producer process that sends messages at a steady rate to all partitions of a topic, until it is told to end.

`python -m benchmarks.growth.sender BOOTSTRAP TOPIC NUMBERS PARTITIONS RATE RESULT`: NUMBERS is a numpy file with the
message to send at each position. Position i goes to partition i modulo PARTITIONS, and is due i / RATE seconds after
the start. On SIGTERM it sends nothing more, waits for what it has sent, and writes a Sent to RESULT. It is an ordinary
producer with the client's default linger.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Final

import click
import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from numpy.typing import NDArray

from benchmarks.harness.model import Model
from benchmarks.harness.pacer import Pace
from benchmarks.harness.testbed import client
from benchmarks.harness.traffic import key_and_headers, key_of, value_of

_STEP_SECONDS: Final = 0.001
_FLUSH_SECONDS: Final = 30.0
_QUEUE_MESSAGES: Final = 1_000_000


class Sent(Model):
    """Number of messages sent, and when each was due."""

    count: int
    pace: Pace


@click.command
@click.argument("bootstrap_servers")
@click.argument("topic")
@click.argument("numbers", type=click.Path(path_type=Path))
@click.argument("partitions", type=int)
@click.argument("rate", type=float)
@click.argument("result", type=click.Path(path_type=Path))
def main(  # noqa: PLR0917 (of a command line)
    bootstrap_servers: str, topic: str, numbers: Path, partitions: int, rate: float, result: Path
) -> None:
    """Send, and write a Sent to RESULT; RESULT.begun is there once it sends."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer(
        {
            **client(bootstrap_servers),
            "compression.type": "lz4",
            "enable.idempotence": True,
            "queue.buffering.max.messages": _QUEUE_MESSAGES,
        }
    )
    producer.list_topics(topic, timeout=_FLUSH_SECONDS)  # so that the first message does not wait

    def send(number: int, position: int) -> None:
        message_id = key_of(number)
        _, headers = key_and_headers(message_id, keyed=False)
        value = value_of(number, message_id)
        producer.produce(
            topic, value, None, position % partitions, on_delivery=delivered, headers=headers
        )

    all_numbers = np.load(numbers)
    result.with_suffix(".begun").touch()
    sent = _send(send, producer, all_numbers, rate, stop)
    if waiting := producer.flush(_FLUSH_SECONDS):
        raise SystemExit(f"{waiting} messages not taken in {_FLUSH_SECONDS:.0f} s")
    if refused:
        raise SystemExit(f"{len(refused)} messages refused: {refused[0].str()}")
    result.write_text(sent.model_dump_json())


def _send(
    send: Callable[[int, int], None],
    producer: Producer,
    numbers: NDArray[np.int64],
    rate: float,
    stop: Event,
) -> Sent:
    late_ms: list[float] = []
    clock, cpu_before = time.monotonic_ns, time.process_time()
    start, position = clock(), 0
    while position < len(numbers) and not stop.is_set():
        end = min(len(numbers), int((clock() - start) * rate / 1e9) + 1)
        if end == position:
            producer.poll(0)
            time.sleep(_STEP_SECONDS)
            continue
        late_ms.append((clock() - start) / 1e6 - position * 1e3 / rate)
        for number in numbers[position:end].tolist():
            send(number, position)
            position += 1
    p50, p99, most = np.percentile(late_ms, [50, 99, 100]).tolist()
    pace = Pace(
        start_ns=start,
        rate=rate,
        late_p50_ms=p50,
        late_p99_ms=p99,
        late_max_ms=most,
        seconds=(clock() - start) / 1e9,
        cpu_seconds=time.process_time() - cpu_before,
    )
    return Sent(count=position, pace=pace)


if __name__ == "__main__":
    main()
