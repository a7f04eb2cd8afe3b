"""The `dedupe` command line: options, and errors as messages.

Each command builds its options here and calls one function elsewhere.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Unpack

import click
from rich.console import Console

from dedupe_crds.local_path import LocalPath
from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.quantity import parse_duration
from dedupe_crds.stop_signals import Interrupted
from dedupe_kafka.errors import StreamError
from dedupe_local.commands.bootstrap import BootstrapOptions, bootstrap_stream
from dedupe_local.commands.index_filters import IndexOptions, index_filters
from dedupe_local.run.preflight import summary
from dedupe_local.run.runner import RunOptions, run_stream
from dedupe_local.sizing.command import size_command
from dedupe_worker.bootstrap.request import RequestValues, make_request, request_options


class _Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_MANIFEST = click.argument("manifest", type=LocalPath(dir_okay=False))
_BOOTSTRAP_SERVERS = click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    help="Kafka bootstrap servers, instead of the manifest's. Without this option an embedded broker is started.",
)
_STATE_DIR = click.option(
    "--state-dir",
    type=LocalPath(file_okay=False),
    help="Directory for the stores, the logs and the embedded broker's topics. "
    "Default: ~/.local/state/dedupestream/NAMESPACE/NAME.",
)
_KAFKA_PROPERTIES = click.option(
    "--kafka-properties",
    type=LocalPath(exists=True, dir_okay=False),
    help="File with librdkafka client properties (SASL, TLS), one key=value per line.",
)
_PARTITIONS = click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="Embedded broker only: number of partitions of each input topic that must be created. "
    "[default: 4]",
)


@click.group()
@click.version_option(package_name="dedupestream")
def main() -> None:
    """Remove duplicates from a Kafka topic, exactly once, on this machine."""


@main.command()
@_MANIFEST
def validate(manifest: Path) -> None:
    """Validate a manifest."""
    with _errors_as_messages():
        click.echo(f"{manifest}: valid. {summary(load_manifest(manifest))}")


@main.command()
@_MANIFEST
@_BOOTSTRAP_SERVERS
@_STATE_DIR
@click.option(
    "--drain",
    is_flag=True,
    help="Stop once every message that is in the input now is processed.",
)
@click.option(
    "--drain-timeout",
    type=_Duration(),
    default="120s",
    show_default=True,
    help="With --drain: fail if a partition, or a growth, makes no progress for this long.",
)
@_KAFKA_PROPERTIES
@_PARTITIONS
def run(
    *,
    manifest: Path,
    bootstrap_servers: str | None,
    state_dir: Path | None,
    drain: bool,
    drain_timeout: timedelta,
    kafka_properties: Path | None,
    partitions: int | None,
) -> None:
    """Run a stream: one worker per partition, and the routers of spec.repartition."""
    options = RunOptions(
        bootstrap_servers=bootstrap_servers,
        state_dir=state_dir,
        drain_stall_seconds=drain_timeout.total_seconds() if drain else None,
        kafka_properties=kafka_properties,
        partitions=partitions,
        manifest=manifest,
    )
    with _errors_as_messages():
        run_stream(load_manifest(manifest), options, Console())


@main.command()
@_MANIFEST
@request_options
@_BOOTSTRAP_SERVERS
@_STATE_DIR
@_KAFKA_PROPERTIES
@_PARTITIONS
@click.option(
    "--partition",
    "only",
    type=click.IntRange(min=0),
    multiple=True,
    help="Partition to fill (repeatable). Default: all.",
)
def bootstrap(
    *,
    manifest: Path,
    bootstrap_servers: str | None,
    state_dir: Path | None,
    kafka_properties: Path | None,
    partitions: int | None,
    only: tuple[int, ...],
    **request: Unpack[RequestValues],
) -> None:
    """Fill the stores of a new stream with ids of earlier deliveries.

    The ids come from a topic, or from files with a column for the id, a column for its time and, if needed, a column
    for its partition. After an interruption the same command resumes.
    """
    options = BootstrapOptions(
        bootstrap_servers=bootstrap_servers,
        state_dir=state_dir,
        kafka_properties=kafka_properties,
        partitions=partitions,
        only=only,
    )
    with _errors_as_messages():
        bootstrap_stream(load_manifest(manifest), make_request(**request), options, Console())


@main.command("index-filters")
@_MANIFEST
@_BOOTSTRAP_SERVERS
@_STATE_DIR
@_KAFKA_PROPERTIES
def index_filters_command(
    *,
    manifest: Path,
    bootstrap_servers: str | None,
    state_dir: Path | None,
    kafka_properties: Path | None,
) -> None:
    """Write the filters that are missing for the output topic.

    Filters are missing for records from before spec.output.filter was set, or if its source was another one. The
    command can run while the stream's workers run, and can be repeated: existing filters stay as they are. After an
    interruption the same command resumes.
    """
    options = IndexOptions(
        bootstrap_servers=bootstrap_servers,
        state_dir=state_dir,
        kafka_properties=kafka_properties,
    )
    with _errors_as_messages():
        index_filters(load_manifest(manifest), options, Console())


main.add_command(size_command)


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    """Show errors that the user can fix as a message; all others keep their traceback.

    The exit code for work that a signal ended before it was done is that of the signal, 143 or 130.
    """
    try:
        yield
    except (ManifestError, StreamError) as error:
        raise click.ClickException(str(error)) from error
    except Interrupted as interrupted:
        click.echo(f"Error: {interrupted}", err=True)
        sys.exit(interrupted.exit_code)
