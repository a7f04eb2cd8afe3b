"""Options, Spark session and error reports of all `dedupe-pipeline` commands."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import click
from pyspark.sql import SparkSession

from dedupe_crds.command_line import BootstrapServersType
from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.client import read_properties
from dedupe_kafka.errors import StreamError
from dedupe_kafka.reachable import check_reachable
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.runtime.java import find_java
from dedupe_pipeline.session import spark_session

_COULD_NOT_RUN = 2
_ADVICE = " (spec.kafka.bootstrapServers or --bootstrap-servers)"
FILE = click.Path(dir_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Target:
    """The stream, its Kafka connection and the Spark settings, checked before a start."""

    stream: DedupeStream
    connection: KafkaConnection
    master: str | None
    spark_properties: dict[str, str]

    @contextmanager
    def spark(self, job: str, topics: list[str]) -> Iterator[SparkSession]:
        """Start a session for a job, after a check that Java and its topics exist."""
        find_java()
        cluster = self.connection.cluster()
        for topic in topics:
            cluster.partition_count(topic)  # raises TopicMissing
        name = f"{job} {self.stream.shown}"
        session = spark_session(name, master=self.master, properties=self.spark_properties)
        try:
            yield session
        finally:
            session.stop()


class Common(TypedDict):
    """The options of every command."""

    manifest: Path
    bootstrap_servers: str | None
    kafka_properties: Path | None
    master: str | None
    conf: tuple[str, ...]


def common_options(command: Command) -> Command:
    """Add the common options to a command."""
    for decorate in (
        click.option(
            "--conf", metavar="KEY=VALUE", multiple=True, help="Spark property (repeatable)."
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


def resolve_target(**given: Unpack[Common]) -> Target:
    """Check the common options, read their files, and wait for Kafka's answer.

    Spark takes its time to start, and is not needed to see that no broker can be reached.
    """
    stream = load_manifest(given["manifest"])
    properties = read_properties(given["kafka_properties"], reserved=frozenset())
    connection = KafkaConnection.of(stream, given["bootstrap_servers"], properties)
    check_reachable(connection.bootstrap_servers, properties, advice=_ADVICE)
    return Target(
        stream=stream,
        connection=connection,
        master=given["master"],
        spark_properties=dict(map(_key_value, given["conf"])),
    )


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set, for jobs with --every."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _key_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--conf")
    return name, value


@contextmanager
def errors_reported() -> Iterator[None]:
    """Report an expected error as one message, and exit with code 2."""
    try:
        yield
    except (ManifestError, StreamError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_COULD_NOT_RUN)
