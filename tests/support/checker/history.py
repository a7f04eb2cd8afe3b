"""Record a history: everything that a topic holds, read to its end."""

import time
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

from tests.support.checker.record import Record, TimestampType

_BATCH_RECORDS = 5_000
_POLL_SECONDS = 0.2
_REQUEST_SECONDS = 30
_RETRY_SECONDS = 0.05
_PASSING = frozenset(
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
    """All records of a topic, partition after partition, each in order of offsets.

    Raises what `read_partition` raises.
    """
    deadline = time.monotonic() + deadline_seconds
    return [
        record
        for partition in partitions_of(bootstrap_servers, topic)
        for record in read_partition(
            bootstrap_servers,
            topic,
            partition,
            isolation=isolation,
            deadline_seconds=deadline - time.monotonic(),
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
    """All records of a partition that stand before its end as it is when this gets there.

    `isolation` read_uncommitted shows what open and aborted transactions hold as well, for
    diagnosis. Raises TimeoutError if the end is not reached in time, KafkaException for an error
    that does not pass.
    """
    deadline = time.monotonic() + deadline_seconds
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
        while time.monotonic() < deadline:
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
    """The topic's partitions. Raises KafkaException if there is no such topic."""
    found = _admin(bootstrap_servers).list_topics(topic, timeout=_REQUEST_SECONDS).topics[topic]
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
    """The last stable offset of each partition, where a reader of committed records ends; or the end itself."""
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        try:
            return _end_offsets(bootstrap_servers, topic, partitions, isolation)
        except KafkaException:
            # A broker that has just come back knows less than its clients for a moment.
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)


def wait_until_settled(
    bootstrap_servers: str, topic: str, *, deadline_seconds: float = 120.0
) -> None:
    """Wait until all that a topic holds now is committed or aborted.

    Kafka ends a transaction in the background after it has said so: its offsets may be committed before its records.
    Raises TimeoutError if a transaction stays open.
    """
    ends = end_offsets(bootstrap_servers, topic, committed=False)
    deadline = time.monotonic() + deadline_seconds
    while any(end < ends[p] for p, end in end_offsets(bootstrap_servers, topic).items()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: a transaction is open for {deadline_seconds:.0f} s")
        time.sleep(_POLL_SECONDS)


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
    admin = _admin(bootstrap_servers)
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
    """The input offsets a group has committed; a partition without is absent.

    Offsets of a transaction that is still open do not count. `settled` waits until there is none, which a busy
    worker on a slow machine may never let happen: whoever only looks on asks without.
    Raises TimeoutError if some are open for too long, or nobody coordinates the group, and
    KafkaException for an error that does not pass.
    """
    # Not through the admin client: its answer to a coordinator that is still loading is a crash of
    # the process (librdkafka treats the answer as a consumer's).
    asker = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "isolation.level": "read_committed" if settled else "read_uncommitted",
        }
    )
    asked = [TopicPartition(topic, p) for p in partitions_of(bootstrap_servers, topic)]
    deadline = time.monotonic() + deadline_seconds
    try:
        while True:
            try:
                found = asker.committed(asked, timeout=max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                if error.args[0].code() not in _PASSING:
                    raise
                if time.monotonic() > deadline:
                    raise TimeoutError(f"group {group}: {error}") from error
                time.sleep(_RETRY_SECONDS)
            else:
                return {where.partition: where.offset for where in found if where.offset >= 0}
    finally:
        asker.close()


@lru_cache(maxsize=4)
def _admin(bootstrap_servers: str) -> AdminClient:
    # Kept: an answer never comes once its client is gone, and a new one takes its time to connect.
    return AdminClient({"bootstrap.servers": bootstrap_servers})


def as_record(message: Message) -> Record:
    """What was read, in a form that can be compared."""
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
