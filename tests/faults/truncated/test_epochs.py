"""The epoch log loses its tail, as after a power loss, and another entry comes in its place, or none."""

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer

from dedupe_crds.clock import SYSTEM_CLOCK
from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.controller import GrowthController
from dedupe_growth.entries import EpochLogUnreadable, Listed
from dedupe_growth.epochs import Epochs
from dedupe_growth.log import EpochReader, open_epochs
from dedupe_growth.writer import EpochWriter
from dedupe_kafka.client_config import producer_config
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.epochs_topic import epochs_topic
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.patience import wait_for
from tests.support.processes.brokers import losing
from tests.support.processes.routers import RoutedStream

CreateStream = Callable[..., RoutedStream]

T = TypeVar("T")

LOST = Listed(epoch=0, inputs={"lost": 1})
OTHERS = [Listed(epoch=0, inputs={"other": 1}), Listed(epoch=0, inputs={"more": 1})]


def reader_of(stream: DedupeStream) -> EpochReader:
    return open_epochs(Consumer, stream, {}, SYSTEM_CLOCK)


def append(stream: DedupeStream, entry: Listed) -> Epochs:
    config = producer_config(
        stream.spec.kafka.bootstrap_servers,
        {},
        transactional_id=f"{stream.consumer_group}.epochs",
        queue_bytes=1 << 20,
        largest_batch_bytes=1 << 20,
        transaction_seconds=10,
    )
    with closing(reader_of(stream)) as known, closing(reader_of(stream)) as reader:
        topic = epochs_topic(stream.spec.output.topic)
        writer = EpochWriter(Producer(config), reader, topic, SYSTEM_CLOCK)
        return writer.append(answer(known.read_to_end), entry)


def answer(ask: Callable[[], T]) -> T:
    """Ask until the broker answers, which has just started again."""
    answers: list[T] = []

    def is_answered() -> bool:
        with suppress(BrokerUnavailable):
            answers.append(ask())
        return bool(answers)

    wait_for(is_answered, "the broker answers")
    return answers[0]


def refuses(read: Callable[[], object]) -> bool:
    try:
        read()
    except EpochLogUnreadable:
        return True
    except BrokerUnavailable:
        return False
    return False


@pytest.mark.parametrize("instead", [[], OTHERS[:1], OTHERS], ids=["nothing", "another", "more"])
def test_who_has_read_a_lost_entry_refuses_the_log(
    broker: EmbeddedBroker, routed_streams: CreateStream, tmp_path: Path, instead: list[Listed]
) -> None:
    stream = load_manifest(routed_streams(inputs=(2,), partitions=2).manifest)
    topic = epochs_topic(stream.spec.output.topic)
    controller = GrowthController(stream, {}, Cluster(broker.bootstrap_servers))
    with closing(reader_of(stream)) as polling, closing(reader_of(stream)) as reading:
        with losing(broker, topic, tmp_path) as lose:
            known = append(stream, LOST)
            wait_for(lambda: polling.poll() == known, "the router reads the entry")
            assert answer(reading.read_to_end) == answer(controller.read) == known
            lose()
        for entry in instead:
            append(stream, entry)
        wait_for(lambda: refuses(polling.poll), "a running router refuses the log")
        for _ in range(2):
            with pytest.raises(EpochLogUnreadable, match="restore it from a copy"):
                answer(reading.read_to_end)
            with pytest.raises(EpochLogUnreadable, match="has lost entry 2"):
                answer(lambda: controller._append(OTHERS[0]))  # noqa: SLF001 (its next act, without a growth)
    with closing(reader_of(stream)) as after:
        assert answer(after.read_to_end).entries == known.entries - 1 + len(instead)
