"""The `dedupe` command: run a stream on this machine, or check its manifest."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console

from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.quantity import parse_duration
from dedupe_kafka.errors import StreamError
from dedupe_local.checks import summary
from dedupe_local.errors import LocalError
from dedupe_local.run import RunOptions, run_stream
from dedupe_pipeline.errors import PipelineError


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
@click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    help="Kafka to use in place of the manifest's; without it, an embedded broker is started.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where stores, logs and the embedded broker's topics are kept. "
    "Default: ~/.local/state/dedupestream/NAMESPACE/NAME.",
)
@click.option("--drain", is_flag=True, help="End when the input is read to its present end.")
@click.option(
    "--drain-timeout",
    type=_Duration(),
    default="120s",
    show_default=True,
    help="With --drain: give up when a partition makes no progress for so long.",
)
@click.option(
    "--kafka-properties",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="librdkafka client properties (SASL, TLS), one key=value a line.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="Embedded broker only: partitions of the input topic if it has to be created. "
    "[default: 4]",
)
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


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Show what users can mend as a message, and only the rest as a traceback."""
    try:
        yield
    except (LocalError, ManifestError, PipelineError, StreamError) as error:
        raise click.ClickException(str(error)) from error
