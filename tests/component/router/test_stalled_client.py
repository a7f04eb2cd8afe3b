"""A router whose client fetches nothing more of a partition, on a real broker: it connects again.

A client that does so by itself cannot be had on demand: here its consumer is paused behind the router's back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from dedupe_crds.clock import SYSTEM_CLOCK
from dedupe_crds.manifest import load_manifest
from dedupe_kafka.clients import CLIENTS
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.epochs_topic import epochs_topic
from dedupe_router.config import RouterConfig
from dedupe_router.state import RouterState
from dedupe_router.supervisor import Supervisor
from tests.support.checker.record import Message
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.processes.routers import RoutedStream

CreateStream = Callable[..., RoutedStream]

EPOCHS = "the epoch log"


def messages(partition: int, count: int) -> list[Message]:
    return [Message(partition, b"%d" % n, b"v") for n in range(count)]


@contextmanager
def router_of(stream: RoutedStream) -> Iterator[tuple[RouterState, dict[str, Consumer]]]:
    """Run a router here; yield its state, and the consumers of its session by their group."""
    consumers: dict[str, Consumer] = {}

    def make(config: dict[str, Any]) -> Consumer:
        made = Consumer(config)
        consumers[config["group.id"]] = made
        return made

    manifest = load_manifest(stream.manifest)
    assert manifest.spec.repartition is not None
    config = RouterConfig(
        stream=manifest, router=0, repartition=manifest.spec.repartition, properties={}
    )
    state, stop = RouterState(manifest, 0), Event()
    clients = replace(CLIENTS, consumer=make)
    supervisor = Supervisor(config, state, SYSTEM_CLOCK, stop, clients=clients, random=Random(1))
    thread = Thread(target=supervisor.run)
    thread.start()
    try:
        wait_for(lambda: state.ready, "the router is ready")
        yield state, consumers
    finally:
        stop.set()
        thread.join(HANG_SECONDS)
    assert not thread.is_alive()


@pytest.mark.parametrize("silent", ["input", EPOCHS])
def test_a_client_that_fetches_nothing_more_is_replaced(
    routed_streams: CreateStream, silent: str
) -> None:
    stream = routed_streams(inputs=(2,))
    (raw,) = stream.inputs
    with router_of(stream) as (state, consumers):
        stream.send_to(raw, [*messages(0, 30), *messages(1, 30)])
        stream.wait_until_routed()
        if silent == EPOCHS:
            log = epochs_topic(stream.output_topic)
            consumers[stream.group].pause([TopicPartition(log, 0)])
            Cluster(stream.bootstrap_servers).grow(raw, 3)
            stream.list_inputs()
            stream.send_to(raw, messages(2, 20))
        else:
            consumers[stream.router_group].pause([TopicPartition(raw, 0)])
            stream.send_to(raw, messages(0, 20))
        assert "BrokerUnavailable" not in state.errors
        wait_for(lambda: state.errors["BrokerUnavailable"] == 1, "it connects again")
        stream.wait_until_routed()
        wait_for(lambda: state.ready, "the router is ready again")


def test_a_client_at_rest_is_left_alone(routed_streams: CreateStream) -> None:
    """Its partitions end with the markers of aborted transactions, which no record shows."""
    stream = routed_streams(inputs=(2,))
    (raw,) = stream.inputs
    with router_of(stream) as (state, _):
        stream.send_to(raw, messages(0, 30))
        abort_one(stream, raw)
        stream.wait_until_routed()
        began = SYSTEM_CLOCK.monotonic()
        wait_for(lambda: SYSTEM_CLOCK.monotonic() - began > 26, "a look at the ends")
        assert not state.errors


def abort_one(stream: RoutedStream, topic: str) -> None:
    producer = Producer({"bootstrap.servers": stream.bootstrap_servers, "transactional.id": "else"})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", b"k", 1)
    producer.flush(HANG_SECONDS)
    producer.abort_transaction(HANG_SECONDS)
