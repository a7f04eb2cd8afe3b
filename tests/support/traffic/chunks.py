"""A topic with chunk filters, written as a worker writes it: each transaction with a filter in it, or without one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import uuid4

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from dedupe_filters.builder import Collector
from dedupe_filters.planner import ask_state
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import Origin
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.side_topics import filters_topic
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.checker import history
from tests.support.checker.record import Record
from tests.support.traffic.id_sources import header_id

HEADER = "v"
SOURCE = FilterSource.header(HEADER)
START_MS = 1_700_000_000_000

_SECONDS = 60.0


class ChunkWriter:
    """The writer of one partition. Values are in the header `v`; `fill` is the size of a record's value in bytes."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partition: int = 0,
        *,
        source: FilterSource = SOURCE,
        size_bytes: int = 16,
        fill: int = 20,
    ) -> None:
        self._servers = bootstrap_servers
        self._topic = topic
        self._partition = partition
        self._fill = fill
        self._written = 0
        topic_id = ask_state(Cluster(bootstrap_servers), topic).id
        self._collector = Collector(source, size_bytes, topic_id)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": f"chunks-{uuid4().hex}",
                "compression.type": "lz4",
                "queue.buffering.max.messages": 1_000_000,
                # As the worker's: a commit sends at once what is left.
                "linger.ms": 50,
            }
        )
        self._producer.init_transactions(_SECONDS)

    def transaction(
        self, values: Iterable[bytes | None], *, claimed: bool = True, commit: bool = True
    ) -> None:
        """Write records with these values, and their filter if they are `claimed`."""
        self._producer.begin_transaction()
        offsets: list[int] = []
        for value in values:
            record = self._record(value)
            self._collector.add([record])
            self._produce(self._producer, record, offsets)
        self._producer.flush(_SECONDS)
        if offsets and claimed:
            made = self._collector.finish(min(offsets), max(offsets), Origin.TRANSACTION)
            self._producer.produce(
                filters_topic(self._topic),
                made.value,
                partition=self._partition,
                timestamp=made.timestamp_ms,
            )
        self._collector.clear()
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        end(_SECONDS)

    def settle(self) -> None:
        """Wait until what was committed is there for readers: a commit returns a little before."""
        for topic in (self._topic, filters_topic(self._topic)):
            if Cluster(self._servers).topic(topic) is not None:
                history.wait_until_settled(self._servers, topic)

    def foreign(self, value: bytes | None) -> None:
        """Write a record as a producer that knows nothing of filters and transactions."""
        producer = Producer({"bootstrap.servers": self._servers})
        self._produce(producer, self._record(value), [])
        producer.flush(_SECONDS)

    def _record(self, value: bytes | None) -> Message:
        self._written += 1
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % self._written)]
        if value is not None:
            headers.append((HEADER, value))
        return Message(
            topic=self._topic,
            partition=self._partition,
            key=b"%d" % self._written,
            value=(b"%d/%s/" % (self._written, value or b"")).ljust(self._fill, b"."),
            headers=headers,
            timestamp=(1, START_MS + self._written),
        )

    def _produce(self, producer: Producer, record: Message, offsets: list[int]) -> None:
        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            offsets.append(message.offset() or 0)

        producer.produce(
            self._topic,
            record.value(),
            record.key(),
            self._partition,
            on_delivery=delivered,
            timestamp=record.timestamp()[1],
            headers=record.headers() or [],
        )
        producer.poll(0)


def chosen(
    records: Iterable[Record], values: Sequence[bytes], *, unfiltered: bool = False
) -> list[Record]:
    """What a reader of these values has to give: everything is looked at."""
    value_of = header_id(HEADER)
    return [
        record
        for record in records
        if (unfiltered if (value := value_of(record)) is None else value in values)
    ]


def as_records(messages: Iterable[Message]) -> list[Record]:
    """What a reader gives, by partition, and in each in the order in which it came."""
    return sorted(map(history.as_record, messages), key=lambda record: record.partition)


def filters_of(bootstrap_servers: str, topic: str) -> list[Record]:
    """The records of a topic's filters topic."""
    return history.read_topic(bootstrap_servers, filters_topic(topic))


@pytest.fixture
def filtered(broker: EmbeddedBroker, topics: Callable[..., str]) -> Iterator[Callable[..., str]]:
    """Create topics that have a filters topic beside them: `filtered(partitions=2)`."""
    cluster = Cluster(broker.bootstrap_servers)
    beside = []

    def create(partitions: int = 1, *, filters: bool = True) -> str:
        name = topics("clean", partitions, **{"retention.ms": -1})
        if filters:
            beside.append(filters_topic(name))
            cluster.create(beside[-1], partitions, 1, {"retention.ms": "-1"})
            cluster.wait_for(beside[-1])
        return name

    yield create
    if beside:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for deleted in admin.delete_topics(beside, operation_timeout=30).values():
            deleted.result(timeout=30)
