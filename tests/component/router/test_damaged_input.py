"""Input of routers that cannot be read as it was written: it holds its own partition, and no other one."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.component.worker.test_damaged_input import messages, send_with_name_not_utf_8
from tests.support.checker.record import Message
from tests.support.processes.brokers import flip
from tests.support.processes.routers import RoutedStream, RouterProcess, Routers

CreateStream = Callable[..., RoutedStream]

BEFORE = 30


def wait_until_held(router: RouterProcess, reason: str, place: str) -> None:
    router.wait_until(lambda: router.status().reason == reason, f"it says {reason}")
    status = router.status()
    assert place in (status.message or "")
    assert not status.ready


@pytest.mark.proof
def test_a_flipped_byte_holds_its_partition_until_it_is_repaired(
    broker: EmbeddedBroker, routed_streams: CreateStream, routers: Routers
) -> None:
    stream = routed_streams(inputs=(2,))
    (raw,) = stream.inputs
    for batch in (messages(BEFORE), [Message(0, b"bad", b"damaged-here")], messages(10, BEFORE)):
        stream.send_to(raw, batch)
    repair = flip(broker, raw, b"damaged-here")
    router = routers.start(stream)
    wait_until_held(router, "RecordCorrupt", f"at offset {BEFORE} of {raw}/0")
    stream.send_to(raw, [Message(1, b"%d" % n, b"v") for n in range(500)])
    router.wait_until(lambda: stream.routed()[raw].get(1) == 500, "the other partition goes on")
    assert stream.routed()[raw].get(0) == BEFORE
    repair()
    stream.wait_until_routed()
    router.wait_until_ready()


@pytest.mark.proof
def test_a_header_name_that_is_not_utf_8_holds_its_partition(
    broker: EmbeddedBroker, routed_streams: CreateStream, routers: Routers
) -> None:
    stream = routed_streams(inputs=(2,))
    (raw,) = stream.inputs
    stream.send_to(raw, messages(BEFORE))
    send_with_name_not_utf_8(broker, raw)
    stream.send_to(raw, messages(10, BEFORE))
    router = routers.start(stream)
    wait_until_held(router, "RecordUnreadable", f"at offset {BEFORE} of {raw}/0")
    stream.send_to(raw, [Message(1, b"%d" % n, b"v") for n in range(500)])
    router.wait_until(lambda: stream.routed()[raw].get(1) == 500, "the other partition goes on")
    assert stream.routed()[raw].get(0) == BEFORE


@pytest.mark.proof
def test_an_input_partition_that_lost_its_end_is_held_alone(
    routed_streams: CreateStream, routers: Routers
) -> None:
    stream = routed_streams(inputs=(2,))
    (raw,) = stream.inputs
    stream.send_to(raw, messages(BEFORE))
    set_offset(stream, raw, BEFORE + 5)
    router = routers.start(stream)
    wait_until_held(router, "InputTruncated", f"{raw}/0 ends at {BEFORE}")
    stream.send_to(raw, [Message(1, b"%d" % n, b"v") for n in range(500)])
    router.wait_until(lambda: stream.routed()[raw].get(1) == 500, "the other partition goes on")
    assert router.sigterm() == 0
    set_offset(stream, raw, 0)
    routers.start(stream).wait_until_ready()
    stream.wait_until_routed()


def set_offset(stream: RoutedStream, topic: str, offset: int) -> None:
    """Set the offset of the routers' group, as kafka-consumer-groups.sh does."""
    config = {"bootstrap.servers": stream.bootstrap_servers, "group.id": stream.router_group}
    consumer = Consumer(config)
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
