"""Options, Spark session and error reports of all `dedupe-pipeline` commands."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import click
from pyspark.sql import SparkSession

from dedupe_crds.local_path import LocalPath
from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.quantity import parse_duration
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.stop_signals import Interrupted, StopSignals
from dedupe_kafka.client import read_properties
from dedupe_kafka.errors import StreamError
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.runtime.java import find_java
from dedupe_pipeline.session import spark_session

_COULD_NOT_RUN = 2
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
    def spark(self, job: str, topics: list[str], signals: StopSignals) -> Iterator[SparkSession]:
        """Start a session for a job, after a check that Java and its topics exist."""
        find_java()
        cluster = self.connection.cluster()
        for topic in topics:
            cluster.partition_count(topic)  # raises TopicMissing
        name = f"{job} {self.stream.shown}"
        session = spark_session(name, master=self.master, properties=self.spark_properties)
        signals.install()  # Spark has replaced the handler of SIGINT
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
            "--bootstrap-servers", help="Kafka brokers, instead of those in the manifest."
        ),
        click.argument("manifest", type=FILE),
    ):
        command = decorate(command)
    return command


def resolve_target(**given: Unpack[Common]) -> Target:
    """Check the common options and read the files they name."""
    stream = load_manifest(given["manifest"])
    properties = read_properties(given["kafka_properties"], reserved=frozenset())
    return Target(
        stream=stream,
        connection=KafkaConnection.of(stream, given["bootstrap_servers"], properties),
        master=given["master"],
        spark_properties=dict(map(_key_value, given["conf"])),
    )


def _key_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--conf")
    return name, value


def parse_every(text: str | None) -> timedelta | None:
    """Parse the value of --every."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--every") from error


@contextmanager
def errors_reported() -> Iterator[None]:
    """Report an expected error as one message, and exit with code 2.

    The exit code for a job that a signal ended before it was done is that of the signal, 143 or 130.
    """
    try:
        yield
    except Interrupted as interrupted:
        click.echo(f"error: {interrupted}", err=True)
        sys.exit(interrupted.exit_code)
    except (ManifestError, StreamError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_COULD_NOT_RUN)
