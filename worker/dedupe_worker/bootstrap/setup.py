"""From what a user asks for to a job: the request, the stream, and what Kafka says of its topics."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Final

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from dedupe_crds.spec.store import StoreType
from dedupe_crds.spec.stream import DedupeStream
from dedupe_ids.extract import extractor_for
from dedupe_kafka.client import client_config, made
from dedupe_kafka.client_config import consumer_config
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.bootstrap.files import FileSource
from dedupe_worker.bootstrap.job import Job, OnProgress, Summary, Target
from dedupe_worker.bootstrap.request import Request
from dedupe_worker.bootstrap.source import Source
from dedupe_worker.bootstrap.topic import TopicSource
from dedupe_worker.errors import Unsupported, store_errors
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.state_dir import Identity, StateDirectory, id_source_text

_TOPIC: Final = "topic:"


def bootstrap(
    stream: DedupeStream,
    properties: Mapping[str, str],
    request: Request,
    states: Mapping[int, StateDirectory],
    *,
    work: Path,
    on_progress: OnProgress,
) -> Summary:
    """Fill the stores of the partitions in `states`; both topics must exist. `work` is used if the request names none.

    Raises a StreamError that says what to do.
    """
    if stream.spec.store.type is not StoreType.ROCKSDB:
        raise Unsupported(
            f"spec.store.type: {stream.spec.store.type.value} can't be filled from another source than the output "
            f"topic; use {StoreType.ROCKSDB.value}"
        )
    connection = _Connection(stream, properties)
    cluster = Cluster(stream.spec.kafka.bootstrap_servers, properties)
    name = f"{stream.metadata.namespace}/{stream.metadata.name}"
    targets = []
    for partition, state in sorted(states.items()):
        connection.topics.describe(stream.spec.input.topic, partition)
        known = cluster.partition_state(stream, partition)
        identity = Identity(
            stream=name,
            partition=partition,
            input_topic_id=known.input_topic_id,
            output_topic_id=known.output_topic_id,
            id_source=id_source_text(stream.spec.id),
        )
        target = Target(
            partition=partition, state=state, identity=identity, output_position=known.low
        )
        targets.append(target)
    window = stream.spec.store.window
    if request.work_dir:
        # Of this job alone: another may be given the same directory, for another partition.
        numbers = "-".join(str(partition) for partition in sorted(states))
        work = request.work_dir / f"{name.replace('/', '.')}.{numbers}"
    job = Job(
        _source(stream, request, connection, frozenset(states)),
        targets,
        Bounds(max_bytes=window.max_bytes, max_age=window.max_age, generations=window.generations),
        work,
        before_ms=int(request.before.timestamp() * 1000) if request.before else None,
        on_progress=on_progress,
    )
    with _few_collections(), store_errors(f"working in {work}"):
        return job.run()


@contextmanager
def _few_collections() -> Iterator[None]:
    """Look for reference cycles seldom: a batch is many thousand objects without one, see process.py."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Connection:
    """Kafka, as the worker reaches it."""

    def __init__(self, stream: DedupeStream, properties: Mapping[str, str]) -> None:
        self._stream = stream
        self._properties = properties
        config = client_config(stream.spec.kafka.bootstrap_servers, properties)
        self.topics = Topics(made(AdminClient, config), Event())

    def reader(self, topic: str, partition: int) -> PartitionReader:
        """A reader of one partition, which commits nothing."""
        config = consumer_config(
            self._stream.spec.kafka.bootstrap_servers,
            self._properties,
            group=f"{self._stream.metadata.namespace}.{self._stream.metadata.name}",
            queue_bytes=self._stream.spec.worker.tuning.queue_bytes,
        )
        return PartitionReader(made(Consumer, config), topic, partition)


def _source(
    stream: DedupeStream, request: Request, connection: _Connection, wanted: frozenset[int]
) -> Source:
    count = connection.topics.describe(stream.spec.input.topic, 0).partitions
    if not request.source.startswith(_TOPIC):
        return FileSource(
            Path(request.source),
            stream=f"{stream.metadata.namespace}/{stream.metadata.name}",
            columns=request.columns,
            id_source=stream.spec.id,
            wanted=wanted,
            count=count,
            partitioner=request.partition_by,
        )
    name = request.source.removeprefix(_TOPIC)
    if name == stream.spec.input.topic and request.before is None:
        raise InvalidConfig(
            f"{name} is the stream's own input: all that is in it would count as delivered, and never be. If it is "
            "up to some time, say so with --before TIME"
        )
    topic = connection.topics.describe(name, 0)
    if topic.partitions != count and request.partition_by is None:
        raise InvalidConfig(
            f"topic {name} has {topic.partitions} partitions and the input {count}, so that it is not known which one "
            "an id belongs to: say how the producers choose a key's partition, with --partition-by murmur2 (Java "
            "clients) or crc32 (librdkafka)"
        )
    ranges = {p: connection.topics.offsets(name, p) for p in range(topic.partitions)}
    return TopicSource(
        name,
        topic.id,
        ranges,
        reader=lambda partition: connection.reader(name, partition),
        extract=extractor_for(stream.spec.id),
        wanted=wanted,
        count=count,
        partitioner=request.partition_by,
    )


def describe(summary: Summary) -> Sequence[str]:
    """What came of it, in lines for users."""
    if summary.done_before:
        return ["Done before: every partition has its store from this source."]
    ids = sum(store.ids for store in summary.stores.values())
    oldest = [store.oldest for store in summary.stores.values() if store.oldest]
    since = f", the oldest of {min(oldest):%Y-%m-%d %H:%M:%S}Z" if oldest else ""
    lines = [f"{ids:,} ids in {len(summary.stores)} partitions{since}."]
    counts = {
        "stood in the source before, with an earlier or the same time": sum(
            store.repeated for store in summary.stores.values()
        ),
        "had no id": summary.without_id,
        "are older than spec.store.window.maxAge": summary.too_old,
        "are not from before --before": summary.too_new,
        "are the oldest of more than spec.store.window.maxBytes holds: the window is shorter than it should be": sum(
            store.left_out for store in summary.stores.values()
        ),
    }
    lines += [f"Left out: {count:,} that {why}." for why, count in counts.items() if count]
    if summary.started_anew:
        lines.append(
            "What an earlier, interrupted attempt had read was of another source, and was thrown away."
        )
    return lines
