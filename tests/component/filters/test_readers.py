"""Readers that skip by filters, on a real broker, return what a full read returns."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from dedupe_filters.bloom import build
from dedupe_filters.reader import FilteredReader
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import ChunkFilter, Origin, encode
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import InvalidConfig, RecordsExpired, TopicMissing, TopicUnusable
from dedupe_kafka.side_topics import filters_topic
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.checker import history
from tests.support.checker.record import Message, Record
from tests.support.fixtures import topics_beside
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.processes.processes import Workers
from tests.support.traffic.chunks import HEADER, ChunkWriter, chosen, filtered, filters_of
from tests.support.traffic.filtered_reads import assert_true, index, read
from tests.support.traffic.streams import TestStream, stream_manifest

__all__ = ["filtered"]

CreateFiltered = Callable[..., str]

LETTERS = [b"a", b"b", b"c", b"d", b"e", None]


def write_anything(writer: ChunkWriter, rng: random.Random, steps: int) -> None:
    """Write transactions with and without filters, aborted ones, and other records."""
    for _ in range(steps):
        few = rng.sample(LETTERS, k=rng.randint(1, 3))
        values = [rng.choice(few) for _ in range(rng.randint(0, 40))]
        match rng.randrange(10):
            case 0:
                writer.foreign(rng.choice(LETTERS))
            case 1:
                writer.transaction(values, commit=False)
            case 2:
                writer.transaction(values, claimed=False)
            case _:
                writer.transaction(values)
    writer.settle()


@pytest.mark.parametrize("seed", range(4))
def test_a_read_gives_what_reading_everything_gives(
    seed: int, broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    """Try it on what writers leave behind, before and after a complete index."""
    servers, rng = broker.bootstrap_servers, random.Random(seed)
    topic = filtered(partitions=2)
    for partition in range(2):
        write_anything(ChunkWriter(servers, topic, partition), rng, 25)
    everything = history.read_topic(servers, topic)

    for _ in range(2):
        for values, unfiltered in (
            ([b"a"], False),
            ([b"b", b"e"], True),
            ([], True),
            ([b"x"], False),
        ):
            for gap in (0, 20, 500):
                found, statistics = read(
                    servers, topic, values, unfiltered=unfiltered, gap_offsets=gap
                )
                assert found == chosen(everything, values, unfiltered=unfiltered)
                assert statistics.matched == len(found)
        assert read(servers, topic, None)[0] == everything
        index(tmp_path, servers, topic)


def test_the_record_of_a_stranger_between_the_chunks_of_two_producers_is_read(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    """No record is read but the stranger's and those near the markers: nothing else matches."""
    servers, topic = broker.bootstrap_servers, filtered()
    first, second = ChunkWriter(servers, topic), ChunkWriter(servers, topic)

    def write_in_between() -> None:
        first.foreign(b"b")
        second.transaction([b"a"])

    for _ in range(22):
        first.transaction([b"a"], meanwhile=write_in_between)
    first.settle()

    found, _ = read(servers, topic, [b"b"], gap_offsets=0)

    assert len(found) == 22
    assert found == chosen(history.read_topic(servers, topic), [b"b"])


def test_a_filter_of_offsets_that_no_record_has_stops_no_reader(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"a", b"b"])
    writer.settle()
    endless = ChunkFilter(
        topic_id=Cluster(servers).offsets(topic).id,
        source=FilterSource.header(HEADER),
        origin=Origin.READ,
        first_offset=0,
        last_offset=(1 << 63) - 1,
        records=0,
        unfiltered=False,
        bloom=build([], 16),
    )
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(filters_topic(topic), encode(endless), partition=0)
    producer.flush(HANG_SECONDS)

    found, _ = read(servers, topic, [b"b"])

    assert found == chosen(history.read_topic(servers, topic), [b"b"])
    assert len(found) == 1


@pytest.mark.proof
def test_every_filter_of_a_stream_is_true_and_its_readers_skip(
    broker: EmbeddedBroker, topics: Callable[..., str], workers: Workers, tmp_path: Path
) -> None:
    """Try it on the output of a real worker that is killed repeatedly."""
    servers = broker.bootstrap_servers
    raw, clean = (topics(hint, **{"retention.ms": -1}) for hint in ("raw", "clean"))
    stream = stream_manifest(
        tmp_path,
        servers,
        raw,
        clean,
        output={"topic": clean, "filter": {"from": "Header", "name": HEADER, "sizeBytes": 255}},
        worker={"tuning": {"maxTransactionRecords": 500, "maxBatchRecords": 500}},
    )
    topics_beside(stream)
    # Every third has a value that no other has, so that a filter that misses any record is found out.
    values = [b"%d" % (n // 1000) if n % 3 else b"only %d" % n for n in range(20_000)]
    sent = [
        Message(0, b"%d" % n, b"value", headers=((HEADER, value),))
        for n, value in enumerate(values)
    ]
    for part in (sent[:5_000], sent[5_000:10_000], sent[10_000:15_000]):
        before = stream.progress().get(0, 0)
        stream.send(part)
        worker = workers.start(stream)
        worker.wait_until(partial(goes_on, stream, before), "it has committed something more")
        worker.sigkill()
    stream.send(sent[15_000:])
    workers.start(stream).wait_until_caught_up()
    everything = stream.clean()

    found, statistics = read(servers, clean, [b"7"], header=None)

    assert found == chosen(everything, [b"7"])
    assert len(found) == 667
    assert statistics.chunks_skipped > statistics.chunks / 2
    assert statistics.records < len(everything) / 2
    for record in filters_of(servers, clean):
        assert_true(record, everything)


def goes_on(stream: TestStream, before: int) -> bool:
    return stream.progress().get(0, 0) > before


def test_one_chunk_in_ten_costs_a_fifth_of_the_bytes_at_most(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic, fill=500)
    rng = random.Random(1)
    for number in range(50):
        writer.transaction([b"%d" % (number % 10)] * 2_000 + [rng.randbytes(8)] * 20)
    writer.settle()

    everything, all_read = read(servers, topic, None)
    reads = [read(servers, topic, [b"3"]) for _ in range(3)]

    for found, _ in reads:
        assert found == chosen(everything, [b"3"])
        assert len(found) == 10_000
    # A client that is held up by other processes fetches ahead: the least is what it has to fetch.
    fetched = min(skipping.bytes_fetched for _, skipping in reads)
    assert fetched < 0.2 * all_read.bytes_fetched


def test_a_reader_that_follows_gets_what_comes_and_skips_in_it(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    writers = [ChunkWriter(servers, topic, partition) for partition in range(2)]
    for writer in writers:
        writer.transaction([b"a"] * 10)
    got: list[Record] = []
    reader = FilteredReader(
        servers, topic, values=[b"a"], header=HEADER, follow=True, poll_seconds=0.05, gap_offsets=0
    )
    running = Thread(target=lambda: got.extend(map(history.as_record, reader)))
    running.start()
    try:
        for number in range(20):
            for writer in writers:
                writer.transaction([b"a" if number % 5 == 0 else b"b"] * 10)
        wait_for(lambda: len(got) >= 100, "all that match have come")
    finally:
        reader.stop()
        running.join(HANG_SECONDS)
        statistics = reader.statistics
        reader.close()

    assert not running.is_alive()
    for writer in writers:
        writer.settle()
    everything = history.read_topic(servers, topic)
    assert sorted(got, key=lambda record: record.partition) == chosen(everything, [b"a"])
    assert statistics.chunks_skipped > 0


def test_a_follower_starts_at_the_end_if_told_so(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"a"] * 10)
    writer.settle()
    end = history.end_offsets(servers, topic)
    writer.transaction([b"a"] * 3)
    writer.settle()

    assert read(servers, topic, [b"a"], start="latest")[0] == []
    assert len(read(servers, topic, [b"a"], start=end)[0]) == 3
    assert len(read(servers, topic, [b"a"], end=end)[0]) == 10


def test_filters_of_another_source_are_not_relied_on(
    broker: EmbeddedBroker, filtered: CreateFiltered, tmp_path: Path
) -> None:
    """Filters from before a change of the manifest do not cover the new values."""
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic, source=FilterSource.header("n"))
    writer.transaction([b"a", b"b"] * 50)
    writer.settle()
    everything = history.read_topic(servers, topic)

    found, statistics = read(servers, topic, [b"a"])

    assert found == chosen(everything, [b"a"])
    assert statistics.chunks == 0
    assert "Wrote 1 filters of 100 records" in index(tmp_path, servers, topic)
    assert read(servers, topic, [b"x"])[1].chunks_skipped == 1


def test_filters_of_a_topic_that_was_deleted_are_not_relied_on(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"b"] * 50)
    writer.settle()
    recreate(servers, topic)
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"a"] * 20, claimed=False)
    writer.settle()

    found, statistics = read(servers, topic, [b"a"])

    assert len(found) == 20
    assert statistics.chunks == 0


def recreate(servers: str, topic: str) -> None:
    admin, cluster = AdminClient({"bootstrap.servers": servers}), Cluster(servers)
    admin.delete_topics([topic], operation_timeout=HANG_SECONDS)[topic].result(timeout=HANG_SECONDS)
    wait_for(lambda: cluster.topic(topic) is None, "the topic is gone")
    wait_for(lambda: cluster.create(topic, 1, 1, {"retention.ms": "-1"}), "it exists again")
    cluster.wait_for(topic)


def test_a_topic_that_is_replaced_while_it_is_followed_ends_the_read(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"a"] * 5)
    writer.settle()
    with FilteredReader(
        servers, topic, values=[b"a"], header=HEADER, follow=True, poll_seconds=0.1
    ) as reader:
        records = iter(reader)
        assert len([next(records) for _ in range(5)]) == 5
        recreate(servers, topic)

        with pytest.raises((TopicUnusable, TopicMissing)):
            next(records)


def test_records_that_are_gone_are_not_skipped_in_silence(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered()
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"a"] * 10)
    writer.transaction([b"a"] * 10)
    writer.settle()
    admin = AdminClient({"bootstrap.servers": servers})
    where = TopicPartition(topic, 0, 11)
    admin.delete_records([where])[where].result(timeout=HANG_SECONDS)

    with pytest.raises(RecordsExpired, match="begins at 11; read from there"):
        read(servers, topic, [b"a"], start={0: 0})
    assert len(read(servers, topic, [b"a"])[0]) == 10


def test_where_values_are_is_known_from_the_filters_or_has_to_be_said(
    broker: EmbeddedBroker, filtered: CreateFiltered
) -> None:
    servers, topic = broker.bootstrap_servers, filtered(partitions=2)
    writers = [
        ChunkWriter(servers, topic, 0),
        ChunkWriter(servers, topic, 1, source=FilterSource.header("n")),
    ]

    with pytest.raises(
        InvalidConfig, match=f"no filters in topic {filters_topic(topic)}: name the"
    ):
        read(servers, topic, [b"a"], header=None)
    writers[0].transaction([b"a"] * 3 + [b"b"])
    writers[0].settle()
    assert len(read(servers, topic, [b"a"], header=None)[0]) == 3
    writers[1].transaction([b"a"])
    writers[1].settle()
    with pytest.raises(InvalidConfig, match="are of Header n and Header v: name the"):
        read(servers, topic, [b"a"], header=None)


def test_a_topic_without_filters_is_read_as_a_whole(
    broker: EmbeddedBroker, topics: Callable[..., str]
) -> None:
    servers, topic = broker.bootstrap_servers, topics("plain", **{"retention.ms": -1})
    writer = ChunkWriter(servers, topic)
    writer.transaction([b"a", b"b"], claimed=False)
    writer.settle()

    assert len(read(servers, topic, [b"a"])[0]) == 1
    with pytest.raises(TopicMissing):
        read(servers, "no-such-topic", [b"a"])
