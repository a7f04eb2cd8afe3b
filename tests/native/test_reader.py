"""The native reader, beside the client library's consumer: aborted transactions, markers, open transactions."""

from collections.abc import Callable
from random import Random

import numpy as np
from confluent_kafka import Producer
from dedupe_native._native import Reader, Writer

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.faults.seed import SEED
from tests.support.checker.history import read_partition
from tests.support.patience import HANG_SECONDS, patience

CreateTopic = Callable[..., str]

QUEUE_BYTES = 4 << 20
ROUNDS = 60


def transactional(servers: str, name: str) -> Producer:
    config = {"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 0}
    producer = Producer({**config, "compression.type": "lz4"})
    producer.init_transactions(60)
    return producer


def send(producer: Producer, topic: str, random: Random, records: int) -> None:
    for _ in range(records):
        producer.produce(topic, random.randbytes(500), b"%d" % random.getrandbits(60), 0)
    assert producer.flush(HANG_SECONDS) == 0


def read_to(reader: Reader, end: int, most: int = 1_000) -> list[int]:
    """Read up to an offset; return the offsets of all records."""
    offsets: list[int] = []
    deadline = patience(60)
    while True:
        read = reader.read(most, 0.0, 0.2)
        assert len(read) <= most
        offsets.extend(np.frombuffer(read.offsets, np.int64).tolist())
        if read.next_offset >= end:
            return offsets
        assert not deadline.expired, f"it has read up to {read.next_offset} of {end}"


def test_it_reads_what_a_consumer_of_committed_records_reads(
    broker: EmbeddedBroker, topics: CreateTopic
) -> None:
    """Transactions of two producers overlap, within a fetch and over several; some are aborted."""
    servers, topic, random = broker.bootstrap_servers, topics("mixed"), Random(SEED)
    producers = [transactional(servers, f"{topic}-{number}") for number in range(2)]
    plain = Producer({"bootstrap.servers": servers})
    open_ = [False, False]
    for _ in range(ROUNDS):
        which = random.randrange(3)
        if which == 2:
            send(plain, topic, random, random.randrange(1, 50))
            continue
        if not open_[which]:
            producers[which].begin_transaction()
            open_[which] = True
        send(producers[which], topic, random, random.choice([1, 20, 1_000]))
        if random.random() < 0.6:
            end = random.choice(["abort_transaction", "commit_transaction"])
            getattr(producers[which], end)(60)
            open_[which] = False
    for producer, is_open in zip(producers, open_, strict=True):
        if is_open:
            producer.abort_transaction(60)
    send(plain, topic, random, 1)

    expected = [each.offset for each in read_partition(servers, topic, 0)]
    assert len(expected) < expected[-1], "some were aborted"
    for most in (1_000_000, 1_000, 97):
        reader = Reader(servers, topic, 0, 0, QUEUE_BYTES)
        assert read_to(reader, expected[-1] + 1, most) == expected
    middle = len(expected) // 2
    reader = Reader(servers, topic, 0, expected[middle], QUEUE_BYTES)
    assert read_to(reader, expected[-1] + 1) == expected[middle:]


def test_it_ends_at_the_last_stable_offset(broker: EmbeddedBroker, topics: CreateTopic) -> None:
    servers, topic, random = broker.bootstrap_servers, topics("open"), Random(SEED)
    plain, producer = Producer({"bootstrap.servers": servers}), transactional(servers, topic)
    send(plain, topic, random, 10)
    producer.begin_transaction()
    send(producer, topic, random, 5)
    send(plain, topic, random, 10)
    reader = Reader(servers, topic, 0, 0, QUEUE_BYTES)
    assert read_to(reader, 10) == [*range(10)]
    beyond = reader.read(1_000, 0.0, 1.0)
    assert (len(beyond), beyond.next_offset, beyond.last_stable_offset) == (0, 10, 10)
    assert beyond.high_watermark == 25
    producer.commit_transaction(60)
    assert read_to(reader, 26) == [*range(10, 25)]


def test_an_aborted_transaction_leaves_nothing_and_its_writer_goes_on(
    broker: EmbeddedBroker, topics: CreateTopic
) -> None:
    servers, source, target = broker.bootstrap_servers, topics("source"), topics("target")
    send(Producer({"bootstrap.servers": servers}), source, Random(SEED), 5_000)
    batch = Reader(servers, source, 0, 0, QUEUE_BYTES).read(5_000, 5.0, 5.0)
    settings = {"transaction_ms": 60_000, "batch_bytes": 100_000, "compressed": True}
    names = {"topic": target, "partition": 0, "transactional_id": target, "group": target}
    writer = Writer(servers, **names, **settings, seconds=60.0)
    writer.produce(batch, None, 60.0)
    writer.abort(60.0)
    odd = np.arange(len(batch)) % 2 == 1
    writer.produce(batch, odd.tobytes(), 60.0)
    writer.send_offset(source, len(batch), "metadata", 60.0)
    first, end = writer.commit(60.0)
    assert end - first == odd.sum()
    found = [record.value for record in read_partition(servers, target, 0)]
    assert found == [batch.content(row)[1] for row in np.flatnonzero(odd)]
