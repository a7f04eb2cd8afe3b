"""`dedupe-pipeline JOB MANIFEST`: the jobs over a stream's topics.

Exit codes: 0 done (and, of an audit, nothing wrong), 1 an audit has found defects, 2 could not run.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import click
from pyspark.sql import SparkSession
from rich.console import Console

from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.quantity import parse_duration
from dedupe_crds.stream import DedupeStream
from dedupe_kafka.partitioners import Partitioner
from dedupe_pipeline.audit import audit
from dedupe_pipeline.audit.report import html_page, print_result
from dedupe_pipeline.bootstrap import PastIds, bootstrap
from dedupe_pipeline.connection import KafkaConnection, read_properties
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jars import JarsUnavailable
from dedupe_pipeline.java import JavaMissing, find_java
from dedupe_pipeline.land import land
from dedupe_pipeline.offsets import Offsets
from dedupe_pipeline.session import spark_session

_COULD_NOT_RUN = 2
_FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class _Target:
    """The stream, and what reaches its cluster and starts Spark, checked before Spark starts."""

    stream: DedupeStream
    connection: KafkaConnection
    master: str
    spark_properties: dict[str, str]

    @contextmanager
    def spark(self, job: str, topics: list[str]) -> Iterator[SparkSession]:
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


class _Common(TypedDict):
    manifest: Path
    bootstrap_servers: str | None
    kafka_properties: Path | None
    master: str
    conf: tuple[str, ...]


def _common_options(command: Command) -> Command:
    for decorate in (
        click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A property of Spark."),
        click.option("--master", default="local[*]", show_default=True, help="Spark's master."),
        click.option(
            "--kafka-properties",
            type=_FILE,
            help="Kafka client properties (SASL, TLS) as key=value lines, as the worker has them.",
        ),
        click.option("--bootstrap-servers", help="Brokers, instead of those of the manifest."),
        click.argument("manifest", type=_FILE),
    ):
        command = decorate(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Spark jobs over the topics of a DedupeStream."""


@main.command("land")
@_common_options
@click.option("--output", type=_DIRECTORY, required=True, help="Directory for date=…/ of Parquet.")
@click.option(
    "--checkpoint",
    type=_DIRECTORY,
    help="Directory that remembers what is landed; on the same file system. [OUTPUT.checkpoint]",
)
@click.option("--every", metavar="DURATION", help="Go on landing, such as each 30s.")
@click.option(
    "--max-offsets-per-trigger", type=click.IntRange(min=1), default=500_000, show_default=True
)
@click.option("--json-schema", metavar="DDL", help='Land the parsed value too: "id STRING, n INT".')
def land_command(
    *,
    output: Path,
    checkpoint: Path | None,
    every: str | None,
    max_offsets_per_trigger: int,
    json_schema: str | None,
    **common: Unpack[_Common],
) -> None:
    """Land the clean topic as Parquet by date, each record exactly once."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _told():
        target = _target(**common)
        with target.spark("land", [target.stream.spec.output.topic]) as spark:
            landed = land(
                spark,
                target.stream,
                output.absolute(),
                checkpoint=checkpoint and checkpoint.absolute(),
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                every=_duration(every),
                max_offsets_per_trigger=max_offsets_per_trigger,
                json_schema=json_schema,
                stop=stop,
            )
    click.echo(f"landed {landed.records:,} records in {landed.batches} batches in {output}")


@main.command("audit")
@_common_options
@click.option("--html", type=_FILE, help="Write a page with plots to this file.")
@click.option("--json", "json_file", type=_FILE, help="Write everything as JSON to this file.")
@click.option(
    "--up-to-committed",
    is_flag=True,
    help="Judge only what the stream has processed; use it while the stream runs.",
)
def audit_command(
    *, html: Path | None, json_file: Path | None, up_to_committed: bool, **common: Unpack[_Common]
) -> None:
    """Compare the raw with the clean topic; exit code 1 if anything is wrong."""
    with _told():
        target = _target(**common)
        spec = target.stream.spec
        with target.spark("audit", [spec.input.topic, spec.output.topic]) as spark:
            result = audit(
                spark,
                target.stream,
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
                up_to_committed=up_to_committed,
            )
        print_result(result, Console())
        if html:
            html.write_text(html_page(result), encoding="utf-8")
        if json_file:
            json_file.write_text(result.to_json() + "\n", encoding="utf-8")
    sys.exit(0 if result.is_clean else 1)


@main.command("bootstrap")
@_common_options
@click.option("--from", "source", required=True, metavar="SOURCE", help="topic:NAME, or a path.")
@click.option("--output", type=_DIRECTORY, required=True, help="A new directory for the files.")
@click.option("--id-column", default="id", show_default=True)
@click.option("--time-column", default="time", show_default=True)
@click.option("--partition-column", default="partition", show_default=True)
@click.option(
    "--partition-by",
    type=click.Choice([one.value for one in Partitioner]),
    help="How producers choose a key's partition, where the source does not tell: murmur2 (Java "
    "clients) or crc32 (librdkafka).",
)
@click.option(
    "--before",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S"]),
    help="Take only ids seen before this time in UTC.",
)
def bootstrap_command(
    *,
    source: str,
    output: Path,
    id_column: str,
    time_column: str,
    partition_column: str,
    partition_by: str | None,
    before: datetime | None,
    **common: Unpack[_Common],
) -> None:
    """Sort ids delivered in the past into files that `dedupe bootstrap` fills a new stream with."""
    past = PastIds(
        source=source,
        id_column=id_column,
        time_column=time_column,
        partition_column=partition_column,
        partition_by=Partitioner(partition_by) if partition_by else None,
        before=before.replace(tzinfo=UTC) if before else None,
    )
    with _told():
        target = _target(**common)
        with target.spark("bootstrap", [target.stream.spec.input.topic]) as spark:
            done = bootstrap(
                spark,
                target.stream,
                past,
                output.absolute(),
                bootstrap_servers=target.connection.bootstrap_servers,
                kafka_options=target.connection.properties,
            )
    click.echo(
        f"{done.ids:,} ids of {done.records:,} records in {output}; "
        f"without an id: {done.without_id:,}, older than the window or not before --before: {done.out_of_time:,}"
    )


def _target(**given: Unpack[_Common]) -> _Target:
    stream = load_manifest(given["manifest"])
    properties = read_properties(path) if (path := given["kafka_properties"]) else {}
    return _Target(
        stream=stream,
        connection=KafkaConnection.of(stream, given["bootstrap_servers"], properties),
        master=given["master"],
        spark_properties=dict(_key_value(one) for one in given["conf"]),
    )


def _key_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--conf")
    return name, value


def _duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--every") from error


@contextmanager
def _told() -> Iterator[None]:
    """Tell what went wrong in a sentence, with the exit code for it."""
    try:
        yield
    except (ManifestError, PipelineError, JavaMissing, JarsUnavailable, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_COULD_NOT_RUN)
