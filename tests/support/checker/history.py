"""Record a history: read a topic to its end, and ask for offsets."""

from collections.abc import Iterable
from functools import lru_cache
from typing import cast
from uuid import uuid4

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # OffsetSpec is public
    AdminClient,
    OffsetSpec,
)

from dedupe_crds.deadline import Deadline
from tests.support.checker.record import Record, TimestampType

_BATCH_RECORDS = 5_000
_POLL_SECONDS = 0.2
_REQUEST_SECONDS = 30
_RETRY_SECONDS = 0.05
_TRANSIENT = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TIMED_OUT,  # noqa: SLF001 # public names
        KafkaError._TRANSPORT,  # noqa: SLF001
    }
)
_CONNECTION_LOST = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001 # public names


def read_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    isolation: str = "read_committed",
    deadline_seconds: float = 120.0,
) -> list[Record]:
    """Read all records of a topic, by partition and then by offset.

    Raises the errors of `read_partition`.
    """
    deadline = Deadline(deadline_seconds)
    return [
        record
        for partition in partitions_of(bootstrap_servers, topic)
        for record in read_partition(
            bootstrap_servers,
            topic,
            partition,
            isolation=isolation,
            deadline_seconds=deadline.remaining(),
        )
    ]


def read_partition(
    bootstrap_servers: str,
    topic: str,
    partition: int,
    *,
    isolation: str = "read_committed",
    deadline_seconds: float = 120.0,
) -> list[Record]:
    """Read all records of a partition up to its current end.

    For diagnosis, `isolation` read_uncommitted also returns records of open and aborted transactions. Raises
    TimeoutError if the end is not reached in time, and KafkaException for an error that is not transient.
    """
    deadline = Deadline(deadline_seconds)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"history-{uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
    )
    records: list[Record] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while not deadline.expired:
            for message in consumer.consume(_BATCH_RECORDS, _POLL_SECONDS):
                if (error := message.error()) is None:
                    records.append(as_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 # a public name
                    return records
                elif not (error.retriable() or error.code() in _CONNECTION_LOST):
                    raise KafkaException(error)
    finally:
        consumer.close()
    last = f"offset {records[-1].offset}" if records else "none"
    raise TimeoutError(
        f"{topic}/{partition}: the end was not reached in {deadline_seconds:.0f} s; "
        f"{len(records)} records were read, the last: {last}"
    )


def partitions_of(bootstrap_servers: str, topic: str) -> list[int]:
    """Return the topic's partitions. Raises KafkaException if it does not exist."""
    found = (
        admin_client(bootstrap_servers).list_topics(topic, timeout=_REQUEST_SECONDS).topics[topic]
    )
    if found.error is not None:
        raise KafkaException(found.error)
    return sorted(found.partitions)


def end_offsets(
    bootstrap_servers: str,
    topic: str,
    partitions: Iterable[int] | None = None,
    *,
    committed: bool = True,
) -> dict[int, int]:
    """Return the last stable offset of each partition, or its high watermark.

    A reader of committed records ends at the last stable offset. `committed` False asks for the high watermark.
    """
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    deadline = Deadline(_REQUEST_SECONDS)
    while True:
        try:
            return _end_offsets(bootstrap_servers, topic, partitions, isolation)
        except KafkaException:
            # For a moment a restarted broker knows less than its clients.
            if not deadline.pause(_POLL_SECONDS):
                raise


def wait_until_settled(
    bootstrap_servers: str, topic: str, *, deadline_seconds: float = 120.0
) -> None:
    """Wait until all transactions that are open in a topic now have ended.

    Kafka completes a transaction in the background after it has confirmed the commit: its offsets may be committed
    before its records. Raises TimeoutError if a transaction stays open.
    """
    ends = end_offsets(bootstrap_servers, topic, committed=False)

    def settled() -> bool:
        return all(end >= ends[p] for p, end in end_offsets(bootstrap_servers, topic).items())

    if not Deadline(deadline_seconds).wait_for(settled, poll_seconds=_POLL_SECONDS):
        raise TimeoutError(f"{topic}: a transaction is open for {deadline_seconds:.0f} s")


def _end_offsets(
    bootstrap_servers: str,
    topic: str,
    partitions: Iterable[int] | None,
    isolation: IsolationLevel,
) -> dict[int, int]:
    if partitions is None:
        partitions = partitions_of(bootstrap_servers, topic)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # the library's own gap
    asked = {TopicPartition(topic, partition): latest for partition in partitions}
    admin = admin_client(bootstrap_servers)
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=_REQUEST_SECONDS)
    return {
        where.partition: answer.result(_REQUEST_SECONDS).offset for where, answer in answers.items()
    }


def committed_offsets(
    bootstrap_servers: str,
    group: str,
    topic: str,
    *,
    settled: bool = True,
    deadline_seconds: float = 120.0,
) -> dict[int, int]:
    """Return the input offsets that a group has committed, by partition.

    A partition without an offset is absent. Offsets of an open transaction do not count. `settled` waits until no
    transaction is open. A busy worker on a slow machine may always have an open transaction, so watchers pass False.
    Raises TimeoutError if a transaction is open for too long or the group has no coordinator, and KafkaException for an
    error that is not transient.
    """
    # Not through the admin client: its answer to a coordinator that is still loading is a crash of
    # the process (librdkafka treats the answer as a consumer's).
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "isolation.level": "read_committed" if settled else "read_uncommitted",
        }
    )
    asked = [TopicPartition(topic, p) for p in partitions_of(bootstrap_servers, topic)]
    deadline = Deadline(deadline_seconds)
    try:
        while True:
            try:
                found = consumer.committed(asked, timeout=max(0.1, deadline.remaining()))
            except KafkaException as error:
                if error.args[0].code() not in _TRANSIENT:
                    raise
                if not deadline.pause(_RETRY_SECONDS):
                    raise TimeoutError(f"group {group}: {error}") from error
            else:
                return {where.partition: where.offset for where in found if where.offset >= 0}
    finally:
        consumer.close()


@lru_cache(maxsize=4)
def admin_client(bootstrap_servers: str) -> AdminClient:
    """Return the admin client of a broker, which is kept for later calls.

    An answer never arrives once its client is gone, and a new client needs time to connect.
    """
    # It outlives its broker, and would log each second that it cannot connect.
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


def as_record(message: Message) -> Record:
    """Convert a message to a record, which can be compared."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    timestamp_type, timestamp_ms = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
    return Record(
        partition=partition,
        offset=offset,
        timestamp_type=TimestampType(timestamp_type),
        timestamp_ms=timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=tuple(headers or ()),
    )
