"""A bootstrap as a user asks for it.

The options of both command lines, and from there to a job.

`dedupe-worker bootstrap` calls `logged_bootstrap`, `dedupe bootstrap` calls `bootstrap`. The worker's command line
loads this module at every start, so what loads pyarrow (60 MB) is imported only when it is needed.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, Final, TypedDict, TypeVar, Unpack

import click
import structlog

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.store import StoreType
from dedupe_crds.spec.stream import DedupeStream
from dedupe_ids.extract import extractor_for
from dedupe_kafka.client import client_config, made
from dedupe_kafka.client_config import consumer_config
from dedupe_kafka.clients import CLIENTS
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.partitioners import Partitioner
from dedupe_worker.bootstrap.job import Job, OnProgress, Target
from dedupe_worker.bootstrap.progress import ProgressLog, Summary, describe
from dedupe_worker.bootstrap.source import Columns, Source
from dedupe_worker.bootstrap.topic import TopicSource
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import Unsupported, store_errors
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.kafka.consumer import PartitionReader, open_reader
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.state_dir import Identity, StateDirectory, id_source_text

Command = TypeVar("Command", bound=Callable[..., Any])

_TOPIC: Final = "topic:"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A bootstrap request. `source` is topic:NAME or a path.

    See `request_options` for the others.
    """

    source: str
    columns: Columns
    partition_by: Partitioner | None
    before: datetime | None
    work_dir: Path | None


def request_options(command: Command) -> Command:
    """Add the options that `make_request` takes."""
    names = Columns()
    for decorate in (
        click.option(
            "--work-dir",
            type=click.Path(file_okay=False, path_type=Path),
            help="Directory for temporary files: 24 bytes for each id read and 37 for each kept. "
            "Default: in the state directory.",
        ),
        click.option(
            "--before",
            metavar="TIME",
            help="Take only ids seen before this time, such as 2026-11-21T10:00:00Z.",
        ),
        click.option(
            "--partition-by",
            type=click.Choice([each.value for each in Partitioner]),
            help="How producers choose a key's partition, if the source has no partitions: murmur2 (Java clients) or "
            "crc32 (librdkafka).",
        ),
        click.option("--partition-column", default=names.partition, show_default=True),
        click.option("--time-column", default=names.time, show_default=True),
        click.option("--id-column", default=names.id, show_default=True),
        click.option(
            "--from",
            "source",
            required=True,
            metavar="SOURCE",
            help="topic:NAME, a .parquet, .csv or .csv.gz file, or a directory of them.",
        ),
    ):
        command = decorate(command)
    return command


class RequestValues(TypedDict):
    """The options' values, as click passes them."""

    source: str
    id_column: str
    time_column: str
    partition_column: str
    partition_by: str | None
    before: str | None
    work_dir: Path | None


def make_request(**values: Unpack[RequestValues]) -> Request:
    """Return the request of these options. Raises InvalidConfig."""
    partition_by, before = values["partition_by"], values["before"]
    return Request(
        source=values["source"],
        columns=Columns(
            id=values["id_column"],
            time=values["time_column"],
            partition=values["partition_column"],
        ),
        partition_by=Partitioner(partition_by) if partition_by else None,
        before=_parse_time(before) if before else None,
        work_dir=values["work_dir"],
    )


def _parse_time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidConfig(f"--before: {error}; write it as 2026-11-21T10:00:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def logged_bootstrap(config: WorkerConfig, request: Request, clock: Clock = SYSTEM_CLOCK) -> None:
    """Bootstrap one partition and log the progress, as in a Kubernetes Job.

    Raises a StreamError that says what to do.
    """
    summary = bootstrap(
        config.stream,
        config.properties,
        request,
        {config.partition: config.state},
        work=config.state.root / "bootstrap",
        on_progress=ProgressLog(clock),
        clock=clock,
    )
    log.info("bootstrapped", stream=config.stream_id, partition=config.partition)
    for line in describe(summary):
        log.info(line)


def bootstrap(
    stream: DedupeStream,
    properties: Mapping[str, str],
    request: Request,
    states: Mapping[int, StateDirectory],
    *,
    work: Path,
    on_progress: OnProgress,
    clock: Clock = SYSTEM_CLOCK,
) -> Summary:
    """Fill the stores of the partitions in `states`; both topics must exist.

    `work` is used if the request names none.

    Raises a StreamError that says what to do.
    """
    if stream.spec.store.type is not StoreType.ROCKSDB:
        raise Unsupported(
            f"spec.store.type: {stream.spec.store.type.value} can only be filled from the output topic; use "
            f"{StoreType.ROCKSDB.value}"
        )
    connection = _Connection(stream, properties, clock)
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
        # Only for this job: another one may use the same directory for another partition.
        numbers = "-".join(str(partition) for partition in sorted(states))
        work = request.work_dir / f"{name.replace('/', '.')}.{numbers}"
    job = Job(
        _source(stream, request, connection, frozenset(states)),
        targets,
        Bounds(max_bytes=window.max_bytes, max_age=window.max_age, generations=window.generations),
        work,
        before_ms=int(request.before.timestamp() * 1000) if request.before else None,
        on_progress=on_progress,
        clock=clock,
    )
    with _few_collections(), store_errors(f"working in {work}"):
        return job.run()


@contextmanager
def _few_collections() -> Iterator[None]:
    """Search for reference cycles rarely.

    A batch is many thousand objects without one, see process.py.
    """
    before = gc.get_threshold()
    gc.set_threshold(200_000, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Connection:
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


def _source(
    stream: DedupeStream, request: Request, connection: _Connection, wanted: frozenset[int]
) -> Source:
    """Return the source that the request names.

    Raises InvalidConfig if it can't be used for this stream.
    """
    count = connection.topics.describe(stream.spec.input.topic, 0).partitions
    if not request.source.startswith(_TOPIC):
        from dedupe_worker.bootstrap.files import FileSource  # noqa: PLC0415 (see the first lines)

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
            f"{name} is the stream's own input: every record in it would count as delivered and never be delivered. "
            "If the records before some time are delivered, add --before TIME"
        )
    topic = connection.topics.describe(name, 0)
    if topic.partitions != count and request.partition_by is None:
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
        extract=extractor_for(stream.spec.id),
        wanted=wanted,
        count=count,
        partitioner=request.partition_by,
    )
