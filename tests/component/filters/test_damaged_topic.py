"""A byte that a broker's disk has flipped, as each reader of a topic meets it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from dedupe_crds.clock import SYSTEM_CLOCK
from dedupe_filters.range_consumer import BULK, RangeConsumer
from dedupe_filters.range_consumer import consumer_config as reading_ranges
from dedupe_growth.log import EpochReader
from dedupe_kafka.client_config import consumer_config
from dedupe_kafka.errors import RecordCorrupt
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_kafka.offsets import OffsetRange
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.jobs.audit.unread import unread
from dedupe_worker.kafka.open_reader import open_reader
from dedupe_worker.kafka.output_reader import OutputReader
from tests.conftest import CreateTopic
from tests.support.checker.record import Message
from tests.support.processes.brokers import flip
from tests.support.traffic.traffic import produce

BEFORE = 3


class NothingHidden:
    def are_all(self, _: object) -> bool:
        return False

    def are_gone(self) -> None:
        pass


def _config(servers: str) -> dict[str, Any]:
    return consumer_config(servers, {}, group="g", queue_bytes=1 << 20)


def of_a_worker(servers: str, topic: str) -> Iterator[int]:
    with closing(open_reader(Consumer, _config(servers), topic, 0, SYSTEM_CLOCK)) as reader:
        reader.seek(0)
        while True:
            for record in reader.read(100, 0.2).records:
                yield record.offset() or 0


def of_several_partitions(servers: str, topic: str) -> Iterator[int]:
    with closing(
        OutputReader(
            Consumer(_config(servers)), topic, SYSTEM_CLOCK, NothingHidden(), FetchProgress()
        )
    ) as reader:
        reader.seek({0: BEFORE}, {0: BEFORE + 2})
        yield from range(BEFORE)
        while True:
            for run in reader.read():
                yield from (record.offset() or 0 for record in run.records)


def of_ranges(servers: str, topic: str) -> Iterator[int]:
    with closing(RangeConsumer(reading_ranges(servers, {}, BULK), topic)) as consumer:
        for records in consumer.read({0: [OffsetRange(0, BEFORE + 2)]}):
            yield from (record.offset() or 0 for record in records)


def of_the_epoch_log(servers: str, topic: str) -> Iterator[int]:
    consumer = Consumer(_config(servers))
    with closing(EpochReader(consumer, topic, SYSTEM_CLOCK)) as reader:
        reader.poll()
        consumer.assign([TopicPartition(topic, 0, BEFORE)])  # what stands before is no entry
        yield from range(BEFORE)
        while True:
            reader.poll()


def of_an_audit(servers: str, topic: str) -> Iterator[int]:
    yield from range(BEFORE)
    unread(
        KafkaConnection(bootstrap_servers=servers),
        "g",
        topic,
        committed={0: BEFORE},
        ends={0: BEFORE + 2},
    )


@pytest.mark.parametrize(
    "read", [of_a_worker, of_several_partitions, of_ranges, of_the_epoch_log, of_an_audit]
)
def test_it_is_named_after_what_stands_before_it(
    broker: EmbeddedBroker, topics: CreateTopic, read: Callable[[str, str], Iterator[int]]
) -> None:
    topic = topics("damaged")
    batches = [[Message(0, b"k", b"v%d" % n)] for n in range(BEFORE)]
    for batch in (*batches, [Message(0, b"k", b"damaged-here")], [Message(0, b"k", b"after")]):
        produce(broker.bootstrap_servers, topic, batch)
    flip(broker, topic, b"damaged-here")
    found: list[int] = []
    with pytest.raises(RecordCorrupt, match=f"at offset {BEFORE} of {topic}/0"):
        found.extend(read(broker.bootstrap_servers, topic))
    assert found == list(range(BEFORE))
