"""A bootstrap as a user asks for it.

The options of both command lines, and from there to a job.

`dedupe-worker bootstrap` calls `logged_bootstrap`, `dedupe bootstrap` calls `bootstrap`.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import click
import structlog

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.local_path import LocalPath
from dedupe_crds.spec.store import StoreType
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.stop_signals import StopSignals
from dedupe_ids.column_ids import IdType
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.partitioners import Partitioner
from dedupe_kafka.reachable import check_reachable
from dedupe_worker.bootstrap.job import Job, OnProgress, Target
from dedupe_worker.bootstrap.open_source import Connection, open_source
from dedupe_worker.bootstrap.progress import ProgressLog, Reached, Summary, describe
from dedupe_worker.bootstrap.source import Columns
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import Unsupported, store_errors
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.state_dir import Identity, StateDirectory, id_source_text

Command = TypeVar("Command", bound=Callable[..., Any])

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
            type=LocalPath(file_okay=False),
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
            "crc32 (librdkafka). Not with spec.repartition.",
        ),
        click.option("--partition-column", default=names.partition, show_default=True),
        click.option("--time-column", default=names.time, show_default=True),
        click.option(
            "--id-type",
            type=click.Choice([each.value for each in IdType]),
            help="Type of the ids in the stream's JSON, where the column does not tell: text, or whole numbers. "
            "Default: the type of the column in Parquet; CSV with numbers is refused.",
        ),
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
    id_type: str | None
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
            id_type=IdType(values["id_type"]) if values["id_type"] else None,
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

    Raises a StreamError that says what to do, and Interrupted at a signal before it is done.
    """
    check_reachable(config.stream.spec.kafka.bootstrap_servers, config.properties)
    reached = Reached()
    with StopSignals() as signals, signals.interrupting(reached.describe):
        summary = bootstrap(
            config.stream,
            config.properties,
            request,
            {config.partition: config.state},
            work=config.state.root / "bootstrap",
            on_progress=reached.then(ProgressLog(clock)),
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
    connection = Connection(stream, properties, clock)
    cluster = Cluster(stream.spec.kafka.bootstrap_servers, properties)
    targets = []
    for partition, state in sorted(states.items()):
        connection.topics.describe(stream.spec.worker_input, partition)
        targets.append(_target(stream, cluster, partition, state))
    window = stream.spec.store.window
    if request.work_dir:
        # Only for this job: another one may use the same directory for another partition.
        numbers = "-".join(str(partition) for partition in sorted(states))
        work = request.work_dir / f"{stream.consumer_group}.{numbers}"
    source = open_source(
        stream,
        connection,
        frozenset(states),
        request.source,
        columns=request.columns,
        partition_by=request.partition_by,
        is_bounded=request.before is not None,
    )
    job = Job(
        source,
        targets,
        Bounds(max_bytes=window.max_bytes, max_age=window.max_age, generations=window.generations),
        work,
        before_ms=int(request.before.timestamp() * 1000) if request.before else None,
        on_progress=on_progress,
        clock=clock,
    )
    with _few_collections(), store_errors(f"working in {work}"):
        return job.run()


def _target(
    stream: DedupeStream, cluster: Cluster, partition: int, state: StateDirectory
) -> Target:
    known = cluster.partition_state(stream, partition)
    identity = Identity(
        stream=stream.shown,
        partition=partition,
        input_topic_id=known.input_topic_id,
        output_topic_id=known.output_topic_id,
        id_source=id_source_text(stream.spec.id),
    )
    return Target(partition=partition, state=state, identity=identity, output_position=known.low)


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
