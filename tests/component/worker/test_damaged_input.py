"""Input that cannot be read as it was written: what stands before it passes, nothing after it does."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message
from tests.support.patience import HANG_SECONDS
from tests.support.processes.brokers import flip
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.traffic.streams import TestStream

CreateStream = Callable[..., TestStream]

BEFORE = 30


def messages(count: int, first: int = 0) -> list[Message]:
    return [Message(0, b"%d" % (first + n), b"amount-%d" % (first + n)) for n in range(count)]


def send_with_name_not_utf_8(broker: EmbeddedBroker, topic: str) -> None:
    """Send a record as producers in C and Go can."""
    send_with_name(broker, topic, b"\xffame-here")


def send_with_name(broker: EmbeddedBroker, topic: str, name: bytes, timestamp_ms: int = 0) -> None:
    """Send a record whose header has this name of nine bytes, by default now.

    Python's producer writes names as UTF-8, and up to a NUL, so the segment is changed.
    """
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    header = ("name-here", b"v")
    producer.produce(topic, b"v", b"unreadable", 0, headers=[header], timestamp=timestamp_ms)
    assert producer.flush(HANG_SECONDS) == 0
    (segment,) = Path(broker.data_dir / "data" / f"{topic}-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    name_at, start = content.index(b"name-here"), 0
    while (end := start + 12 + int.from_bytes(content[start + 8 : start + 12])) <= name_at:
        start = end
    content[name_at : name_at + len(name)] = name
    content[start + 17 : start + 21] = crc32c(bytes(content[start + 21 : end])).to_bytes(4)
    with segment.open("r+b") as file:
        file.write(content)


def crc32c(content: bytes) -> int:
    """Return the checksum of a batch from its attributes on (Kafka's record format 2)."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def wait_until_held(worker: WorkerProcess, reason: str, place: str) -> None:
    def is_held() -> bool:
        try:
            readiness = worker.readiness()
        except httpx.TransportError:
            return False
        message = readiness.body["message"] or ""
        return (
            readiness.http_status == 503 and readiness.body["reason"] == reason and place in message
        )

    worker.wait_until(is_held, f"/readyz says {reason} at {place}")


@pytest.mark.proof
@pytest.mark.parametrize("delivery", ["ExactlyOnce", "AtLeastOnce"])
def test_a_flipped_byte_holds_the_partition_until_it_is_repaired(
    broker: EmbeddedBroker, streams: CreateStream, workers: Workers, delivery: str
) -> None:
    stream = streams(delivery=delivery)
    for batch in (messages(BEFORE), [Message(0, b"bad", b"damaged-here")], messages(10, BEFORE)):
        stream.send(batch)
    repair = flip(broker, stream.input_topic, b"damaged-here")
    worker = workers.start(stream)
    wait_until_held(worker, "RecordCorrupt", f"at offset {BEFORE} of {stream.input_topic}/0")
    worker.wait_until(lambda: stream.progress().get(0) == BEFORE, "what stands before it passes")
    assert len(stream.clean()) == BEFORE
    assert worker.is_running
    repair()
    worker.wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(BEFORE + 11)
    worker.wait_until_ready()


@pytest.mark.proof
def test_a_header_name_that_is_not_utf_8_holds_the_partition(
    broker: EmbeddedBroker, streams: CreateStream, workers: Workers
) -> None:
    stream = streams()
    stream.send(messages(BEFORE))
    send_with_name_not_utf_8(broker, stream.input_topic)
    stream.send(messages(10, BEFORE))
    worker = workers.start(stream)
    wait_until_held(worker, "RecordUnreadable", f"at offset {BEFORE} of {stream.input_topic}/0")
    worker.wait_until(lambda: stream.progress().get(0) == BEFORE, "what stands before it passes")
    assert len(stream.clean()) == BEFORE
    assert worker.is_running
