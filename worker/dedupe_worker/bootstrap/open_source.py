"""Open the source of ids that a request names, for a stream.

`request` calls it. The worker's command line loads this module at every start, so what loads pyarrow (60 MB) is
imported only when it is needed.
"""

from collections.abc import Mapping
from threading import Event
from typing import Final

import structlog

from dedupe_crds.clock import Clock
from dedupe_crds.local_path import NotLocal, local_path
from dedupe_crds.spec.stream import DedupeStream
from dedupe_ids.extract import extractor_for
from dedupe_kafka.client import client_config, made
from dedupe_kafka.client_config import consumer_config
from dedupe_kafka.clients import CLIENTS
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.input_topics import matching_topics
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.partitioners import Partitioner
from dedupe_worker.bootstrap.placement import placement_of
from dedupe_worker.bootstrap.source import Columns, Source
from dedupe_worker.bootstrap.topic import TopicSource
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.open_reader import open_reader

TOPIC: Final = "topic:"

log = structlog.get_logger()


class Connection:
    """Connections to Kafka with the worker's settings."""

    def __init__(self, stream: DedupeStream, properties: Mapping[str, str], clock: Clock) -> None:
        self._stream = stream
        self._properties = properties
        self._clock = clock
        config = client_config(stream.spec.kafka.bootstrap_servers, properties)
        self.topics = Topics(made(CLIENTS.admin, config), Event(), clock)

    def settled_offsets(self, topic: str, partition: int) -> OffsetRange:
        """Return the offsets of a partition, after the transactions open now."""
        return self.topics.settled_offsets(
            topic,
            partition,
            servers=self._stream.spec.kafka.bootstrap_servers,
            on_wait=lambda error: log.warning("waiting", reason=error.reason, error=str(error)),
        )

    def reader(self, topic: str, partition: int) -> PartitionReader:
        """Return a reader of one partition, which commits nothing."""
        config = consumer_config(
            self._stream.spec.kafka.bootstrap_servers,
            self._properties,
            group=self._stream.consumer_group,
            queue_bytes=self._stream.spec.worker.tuning.queue_bytes,
        )
        return open_reader(CLIENTS.consumer, config, topic, partition, self._clock)


def open_source(
    stream: DedupeStream,
    connection: Connection,
    wanted: frozenset[int],
    source: str,
    *,
    columns: Columns,
    partition_by: Partitioner | None,
    is_bounded: bool,
) -> Source:
    """Return the source, topic:NAME or a path, of the ids of the partitions `wanted`.

    `is_bounded` tells that only ids before some time are taken.

    Raises InvalidConfig if it can't be used for this stream.
    """
    spec = stream.spec
    count = connection.topics.describe(spec.worker_input, 0).partitions
    placement = placement_of(spec.repartition, partition_by, count)
    if not source.startswith(TOPIC):
        from dedupe_worker.bootstrap.files import FileSource  # noqa: PLC0415 (see the first lines)

        try:
            path = local_path(source)
        except NotLocal as error:
            raise InvalidConfig(f"--from: {error}") from error
        return FileSource(
            path,
            stream=stream.shown,
            columns=columns,
            id_source=spec.id,
            wanted=wanted,
            count=count,
            placement=placement,
        )
    name = source.removeprefix(TOPIC)
    if name in {spec.worker_input, *matching_topics([name], spec)} and not is_bounded:
        raise InvalidConfig(
            f"{name} is the stream's own input: every record in it would count as delivered and never be delivered. "
            "If the records before some time are delivered, add --before TIME"
        )
    topic = connection.topics.describe(name, 0)
    if topic.partitions != count and placement is None:
        raise InvalidConfig(
            f"topic {name} has {topic.partitions} partitions and the input {count}, so the partition of an id is not "
            "known: add --partition-by murmur2 (Java clients) or crc32 (librdkafka), as the producers choose a key's "
            "partition"
        )
    ranges = {p: connection.settled_offsets(name, p) for p in range(topic.partitions)}
    return TopicSource(
        name,
        topic.id,
        ranges,
        reader=lambda partition: connection.reader(name, partition),
        extract=extractor_for(spec.id),
        wanted=wanted,
        placement=placement,
    )
