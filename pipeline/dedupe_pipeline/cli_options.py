"""What the commands of `dedupe-pipeline` have in common: options, the session, errors told in a sentence."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import click
from pyspark.sql import SparkSession

from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.quantity import parse_duration
from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.connection import KafkaConnection, read_properties
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.offsets import Offsets
from dedupe_pipeline.runtime.jars import JarsUnavailable
from dedupe_pipeline.runtime.java import JavaMissing, find_java
from dedupe_pipeline.session import spark_session

_COULD_NOT_RUN = 2
FILE = click.Path(dir_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Target:
    """The stream, and what reaches its cluster and starts Spark, checked before Spark starts."""

    stream: DedupeStream
    connection: KafkaConnection
    master: str | None
    spark_properties: dict[str, str]

    @contextmanager
    def spark(self, job: str, topics: list[str]) -> Iterator[SparkSession]:
        """A session for a job, once it is known that its topics are there."""
        find_java()
        offsets = Offsets(self.connection)
        for topic in topics:
            offsets.partitions(topic)
        name = f"{job} {self.stream.metadata.namespace}/{self.stream.metadata.name}"
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
    """Add them to a command."""
    for decorate in (
        click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A property of Spark."),
        click.option("--master", help="Spark's master. [local[*], or spark-submit's]"),
        click.option(
            "--kafka-properties",
            type=FILE,
            help="Kafka client properties (SASL, TLS) as key=value lines, as the worker has them.",
        ),
        click.option("--bootstrap-servers", help="Brokers, instead of those of the manifest."),
        click.argument("manifest", type=FILE),
    ):
        command = decorate(command)
    return command


def target_of(**given: Unpack[Common]) -> Target:
    """Check them."""
    stream = load_manifest(given["manifest"])
    properties = read_properties(path) if (path := given["kafka_properties"]) else {}
    return Target(
        stream=stream,
        connection=KafkaConnection.of(stream, given["bootstrap_servers"], properties),
        master=given["master"],
        spark_properties=dict(_key_value(one) for one in given["conf"]),
    )


def stopped_by_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set, for jobs that go on."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _key_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--conf")
    return name, value


def duration(text: str | None) -> timedelta | None:
    """The value of --every."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--every") from error


@contextmanager
def told() -> Iterator[None]:
    """Tell what went wrong in a sentence, with the exit code for it."""
    try:
        yield
    except (ManifestError, PipelineError, JavaMissing, JarsUnavailable, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_COULD_NOT_RUN)
