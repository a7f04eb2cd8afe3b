"""The `dedupe` command: run a stream on this machine, or check its manifest."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Unpack

import click
from rich.console import Console

from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.quantity import parse_duration
from dedupe_kafka.errors import StreamError
from dedupe_local.commands.bootstrap import BootstrapOptions, bootstrap_stream
from dedupe_local.commands.index_filters import IndexOptions, index_filters
from dedupe_local.errors import LocalError
from dedupe_local.run.preflight import summary
from dedupe_local.run.runner import RunOptions, run_stream
from dedupe_local.sizing.command import size_command
from dedupe_pipeline.errors import PipelineError
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


_MANIFEST = click.argument("manifest", type=click.Path(dir_okay=False, path_type=Path))
_BOOTSTRAP_SERVERS = click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    help="Kafka to use in place of the manifest's; without it, an embedded broker is started.",
)
_STATE_DIR = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where stores, logs and the embedded broker's topics are kept. "
    "Default: ~/.local/state/dedupestream/NAMESPACE/NAME.",
)
_KAFKA_PROPERTIES = click.option(
    "--kafka-properties",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="librdkafka client properties (SASL, TLS), one key=value a line.",
)
_PARTITIONS = click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="Embedded broker only: partitions of the input topic if it has to be created. "
    "[default: 4]",
)


@click.group()
@click.version_option(package_name="dedupestream")
def main() -> None:
    """Remove duplicates from a Kafka topic, exactly once, on this machine."""


@main.command()
@_MANIFEST
def validate(manifest: Path) -> None:
    """Check a manifest."""
    with _told_plainly():
        click.echo(f"{manifest}: valid. {summary(load_manifest(manifest))}")


@main.command()
@_MANIFEST
@_BOOTSTRAP_SERVERS
@_STATE_DIR
@click.option("--drain", is_flag=True, help="End when the input is read to its present end.")
@click.option(
    "--drain-timeout",
    type=_Duration(),
    default="120s",
    show_default=True,
    help="With --drain: give up when a partition makes no progress for so long.",
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
    """Run a stream: one worker for each partition of its input topic."""
    options = RunOptions(
        bootstrap_servers=bootstrap_servers,
        state_dir=state_dir,
        drain_stall_seconds=drain_timeout.total_seconds() if drain else None,
        kafka_properties=kafka_properties,
        partitions=partitions,
    )
    with _told_plainly():
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
    help="Fill only this one; may be given several times. Default: all of them.",
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
    """Fill the stores of a new stream with ids that were delivered before it.

    The ids come from a topic, or from files with a column for the id, one for when it was seen and, if need be, one
    for its partition. If it is interrupted, the same command goes on where it was.
    """
    options = BootstrapOptions(
        bootstrap_servers=bootstrap_servers,
        state_dir=state_dir,
        kafka_properties=kafka_properties,
        partitions=partitions,
        only=only,
    )
    with _told_plainly():
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
    """Write the filters that the output topic lacks: of before it had any, or of another source.

    May run beside the stream's workers, and again: what has a filter is left as it is. If it is interrupted, the same
    command goes on where it was.
    """
    options = IndexOptions(
        bootstrap_servers=bootstrap_servers,
        state_dir=state_dir,
        kafka_properties=kafka_properties,
    )
    with _told_plainly():
        index_filters(load_manifest(manifest), options, Console())


main.add_command(size_command)


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Show what users can mend as a message, and only the rest as a traceback."""
    try:
        yield
    except (LocalError, ManifestError, PipelineError, StreamError) as error:
        raise click.ClickException(str(error)) from error
