"""Write a topic with chunk filters as a worker does: a filter per transaction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import uuid4

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from dedupe_filters.builder import FilterBuilder
from dedupe_filters.planner import read_offsets
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import Origin
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.side_topics import filters_topic
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.checker import history
from tests.support.checker.id_sources import header_id
from tests.support.checker.record import Record
from tests.support.patience import HANG_SECONDS

HEADER = "v"
SOURCE = FilterSource.header(HEADER)
START_MS = 1_700_000_000_000


class ChunkWriter:
    """Writes one partition.

    Values are in the header `v`; `fill` is the size of a record's value in bytes.
    """

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
        topic_id = read_offsets(Cluster(bootstrap_servers), topic).id
        self._builder = FilterBuilder(source, size_bytes, topic_id)
        self._transactional_id = f"chunks-{uuid4().hex}"
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": self._transactional_id,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 1_000_000,
                # As in the worker: a commit sends the rest at once.
                "linger.ms": 50,
            }
        )
        self._producer.init_transactions(HANG_SECONDS)

    def transaction(
        self,
        values: Iterable[bytes | None],
        *,
        claimed: bool = True,
        commit: bool = True,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Write records with these values, and their filter if `claimed`.

        `meanwhile` is called when all is written, before the transaction ends.
        """
        self._producer.begin_transaction()
        offsets: list[int] = []
        for value in values:
            record = self._record(value)
            self._builder.add([record])
            self._produce(self._producer, record, offsets)
        self._producer.flush(HANG_SECONDS)
        if offsets and claimed:
            made = self._builder.finish(min(offsets), max(offsets), Origin.TRANSACTION)
            self._producer.produce(
                filters_topic(self._topic),
                made.value,
                self._transactional_id,
                partition=self._partition,
                timestamp=made.timestamp_ms,
            )
        self._builder.clear()
        meanwhile()
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        end(HANG_SECONDS)

    def settle(self) -> None:
        """Wait until readers see the committed records: a commit returns a little earlier."""
        for topic in (self._topic, filters_topic(self._topic)):
            if Cluster(self._servers).topic(topic) is not None:
                history.wait_until_settled(self._servers, topic)

    def foreign(self, value: bytes | None) -> None:
        """Write a record without filter and transaction, as another producer would."""
        producer = Producer({"bootstrap.servers": self._servers})
        self._produce(producer, self._record(value), [])
        producer.flush(HANG_SECONDS)

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
    """Return what a reader of these values must return, by a check of each record."""
    value_of = header_id(HEADER)
    return [
        record
        for record in records
        if (unfiltered if (value := value_of(record)) is None else value in values)
    ]


def as_records(messages: Iterable[Message]) -> list[Record]:
    """Return messages as records, by partition, and within it in the given order."""
    return sorted(map(history.as_record, messages), key=lambda record: record.partition)


def filters_of(bootstrap_servers: str, topic: str) -> list[Record]:
    """Read the filters topic of a topic."""
    return history.read_topic(bootstrap_servers, filters_topic(topic))


@pytest.fixture
def filtered(broker: EmbeddedBroker, topics: Callable[..., str]) -> Iterator[Callable[..., str]]:
    """Create topics with their filters topics: `filtered(partitions=2)`."""
    cluster = Cluster(broker.bootstrap_servers)
    filters_topics = []

    def create(partitions: int = 1, *, filters: bool = True) -> str:
        name = topics("clean", partitions, **{"retention.ms": -1})
        if filters:
            filters_topics.append(filters_topic(name))
            cluster.create(filters_topics[-1], partitions, 1, {"retention.ms": "-1"})
            cluster.wait_for(filters_topics[-1])
        return name

    yield create
    if filters_topics:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for deleted in admin.delete_topics(filters_topics, operation_timeout=HANG_SECONDS).values():
            deleted.result(timeout=HANG_SECONDS)
