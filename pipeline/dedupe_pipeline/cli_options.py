"""Options, Spark session and error reports of all `dedupe-pipeline` commands."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import click
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dedupe_crds.command_line import BootstrapServersType
from dedupe_crds.exit_status import CommandFailed, ExitStatus
from dedupe_crds.local_path import LocalPath
from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.stop_signals import StopSignals
from dedupe_ids.column_ids import IdType
from dedupe_kafka.client import read_properties
from dedupe_kafka.errors import InvalidConfig, StreamError
from dedupe_kafka.reachable import check_reachable
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import PipelineError, RequestRefused, first_line
from dedupe_pipeline.jobs.audit.bounds import Bounds, parse_span
from dedupe_pipeline.report.report import Report, Step
from dedupe_pipeline.runtime.java import find_java
from dedupe_pipeline.session import session_for
from dedupe_pipeline.table_target import TableTarget
from dedupe_pipeline.timestamp_overflow import overflow_named

AGAIN = "the same command continues there"
_ADVICE = " (spec.kafka.bootstrapServers or --bootstrap-servers)"
FILE = LocalPath(dir_okay=False)
DIRECTORY = LocalPath(file_okay=False)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Target:
    """The stream, its Kafka connection and the Spark settings, checked before a start."""

    stream: DedupeStream
    connection: KafkaConnection
    master: str | None
    spark_properties: dict[str, str]

    @contextmanager
    def spark(
        self,
        job: str,
        topics: list[str],
        signals: StopSignals,
        report: Report,
        *,
        table: TableTarget | None = None,
    ) -> Iterator[SparkSession]:
        """Start a session for a job, and its table, after a check that its topics exist."""
        cluster = self.connection.cluster()
        for topic in topics:
            cluster.partition_count(topic)  # raises TopicMissing
        name = f"{job} {self.stream.shown}"
        report.step(Step(action="starting Spark"))
        try:
            session = session_for(name, table, master=self.master, properties=self.spark_properties)
        except (PySparkException, Py4JError) as error:
            raise PipelineError(
                f"Spark did not start: {first_line(error)}; check --master, --conf and the memory of this machine"
            ) from error
        signals.install()  # Spark has replaced the handler of SIGINT
        try:
            yield session
        except (PipelineError, PySparkException, Py4JError) as error:
            if named := overflow_named(error, self.connection, topics):
                raise PipelineError(named) from error
            raise
        finally:
            session.stop()


class Common(TypedDict):
    """The options of every command."""

    manifest: Path
    bootstrap_servers: str | None
    kafka_properties: Path | None
    spark_kafka_option: tuple[str, ...]
    master: str | None
    conf: tuple[str, ...]


def common_options(command: Command) -> Command:
    """Add the common options to a command."""
    for decorate in (
        click.option(
            "--conf", metavar="KEY=VALUE", multiple=True, help="Spark property (repeatable)."
        ),
        click.option(
            "--spark-kafka-option",
            metavar="NAME=VALUE",
            multiple=True,
            help="Option of Spark's Kafka source, such as minPartitions=64, or kafka.PROPERTY of its Java client "
            "(repeatable). NAME=@FILE reads the value from a file, as for secrets.",
        ),
        click.option("--master", help="Spark master. [local[*], or that of spark-submit]"),
        click.option(
            "--kafka-properties",
            type=FILE,
            help="Kafka client properties (SASL, TLS) as key=value lines, the same file as the worker's.",
        ),
        click.option(
            "--bootstrap-servers",
            type=BootstrapServersType(),
            metavar="HOST:PORT",
            help="Kafka brokers, instead of those in the manifest.",
        ),
        click.argument("manifest", type=FILE),
    ):
        command = decorate(command)
    return command


def resolve_target(namespace: str | None = None, **given: Unpack[Common]) -> Target:
    """Check the common options, read their files, and wait for Kafka's answer.

    Spark takes its time to start, and is not needed to see that no broker can be reached.
    """
    stream = in_namespace(load_manifest(given["manifest"]), namespace)
    find_java()
    properties = read_properties(given["kafka_properties"], reserved=frozenset())
    options = dict(map(_source_option, given["spark_kafka_option"]))
    connection = KafkaConnection.of(stream, given["bootstrap_servers"], properties, options)
    check_reachable(connection.bootstrap_servers, properties, advice=_ADVICE)
    return Target(
        stream=stream,
        connection=connection,
        master=given["master"],
        spark_properties=dict(map(_key_value, given["conf"])),
    )


def in_namespace(stream: DedupeStream, namespace: str | None) -> DedupeStream:
    """Return the stream as it is in a namespace; the names of its groups contain that."""
    own = stream.metadata
    if namespace is None or own.namespace == namespace:
        return stream
    if "namespace" in own.model_fields_set:
        raise click.BadParameter(
            f"the manifest says metadata.namespace: {own.namespace}; correct one of them",
            param_hint="--namespace",
        )
    return stream.model_copy(update={"metadata": own.model_copy(update={"namespace": namespace})})


def _key_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--conf")
    return name, value


def _source_option(text: str) -> tuple[str, str]:
    """Return an option of Spark's Kafka source; its value may be secret."""
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter("it takes NAME=VALUE", param_hint="--spark-kafka-option")
    if not value.startswith("@"):
        return name, value
    try:
        # An editor ends the file with a new line; blanks before it may belong to a password.
        return name, Path(value[1:]).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestRefused(f"cannot read the file of {name}, {value[1:]}: {error}") from None


def audit_bounds(
    since: datetime | None, last: timedelta | None, offsets: tuple[str, ...]
) -> Bounds:
    """Return the part of the input that the options name."""
    if since is not None and last is not None:
        raise click.UsageError("--since and --last are two ways to say the same: give one of them")
    if last is not None:
        since = datetime.now(UTC) - last
    try:
        spans = dict(map(parse_span, offsets))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--offsets") from error
    return Bounds(since=since and since.replace(tzinfo=UTC), spans=spans)


def check_writable(*files: Path | None) -> None:
    """Refuse a file that could not be written after the work is done."""
    for file in filter(None, files):
        if not file.absolute().parent.is_dir():
            raise RequestRefused(f"{file}: its directory does not exist; create it")
        if not os.access(file if file.exists() else file.absolute().parent, os.W_OK):
            raise RequestRefused(f"{file}: may not be written; choose another place")


@contextmanager
def errors_reported() -> Iterator[None]:
    """Report an error that a user can mend as one message, with its exit code."""
    try:
        yield
    except (ManifestError, InvalidConfig) as error:
        raise CommandFailed(str(error), ExitStatus.USAGE) from error
    except PipelineError as error:
        raise CommandFailed(str(error), error.status) from error
    except (StreamError, OSError) as error:
        raise CommandFailed(str(error), ExitStatus.FAILED) from error
    except (PySparkException, Py4JError) as error:
        # Kafka that went away, a password that only Java's client refuses, no memory, no disk.
        raise CommandFailed(f"Spark failed: {first_line(error)}", ExitStatus.FAILED) from error


def id_type_option(name: str) -> Callable[[Command], Command]:
    """Return the option for the type of the ids in a file."""
    return click.option(
        name,
        type=click.Choice([each.value for each in IdType]),
        callback=lambda _context, _option, value: value and IdType(value),
        help="Type of the ids in the stream's JSON, where the column does not tell: text, or whole numbers. Default: "
        "the type of the column; CSV with numbers is refused.",
    )
