"""The `dedupe` command line: options, and errors as messages.

Each command builds its options here and calls one function elsewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Unpack

import click

from dedupe_crds.command_line import BootstrapServersType, DurationType, add_help_and_version
from dedupe_crds.exit_status import CommandFailed, Commands, ExitStatus
from dedupe_crds.local_path import LocalPath
from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.manifest_file import check_file
from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.errors import InvalidConfig, StreamError
from dedupe_kafka.partitioning import describe_shared_ids
from dedupe_local.commands.bootstrap import BootstrapOptions, bootstrap_stream
from dedupe_local.commands.index_filters import index_filters
from dedupe_local.errors import Refused
from dedupe_local.run.live_table import RunConsole
from dedupe_local.run.preflight import snapshot_summary, summary
from dedupe_local.run.runner import RunOptions, run_stream
from dedupe_local.servers.connect import KafkaOptions
from dedupe_local.sizing.command import size_command
from dedupe_pipeline.report.report import Report, report_options
from dedupe_worker.bootstrap.request import RequestValues, make_request, request_options

_MANIFEST = click.argument("manifest", type=LocalPath(dir_okay=False))
_BOOTSTRAP_SERVERS = click.option(
    "--bootstrap-servers",
    type=BootstrapServersType(),
    metavar="HOST:PORT",
    help="Kafka bootstrap servers, instead of the manifest's.",
)
_EMBEDDED = click.option(
    "--embedded",
    is_flag=True,
    help="Start a Kafka broker on this machine, with its topics in the state directory, instead of the manifest's.",
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
    help="With --embedded: number of partitions of each input topic that must be created. "
    "[default: 4]",
)


@click.group(cls=Commands)
def main() -> None:
    """Remove duplicates from a Kafka topic, exactly once, on this machine.

    Exit codes: 0 done; 2 an option, the manifest or a file that they name is wrong; 3 the command could not run or
    finish; 143, 130 or 129 SIGTERM, SIGINT or SIGHUP ended it before it was done.
    """


@main.command()
@_MANIFEST
def validate(manifest: Path) -> None:
    """Validate each DedupeStream and DedupeSnapshot of a file."""
    with _errors_as_messages():
        checked = check_file(manifest)
        for each in checked.objects:
            text = summary(each) if isinstance(each, DedupeStream) else snapshot_summary(each)
            click.echo(f"{manifest}: valid. {text}")
            if isinstance(each, DedupeStream) and (shared := describe_shared_ids(each.spec)):
                click.echo(f"{manifest}: note. {each.shown}: {shared}")
        for title in checked.others:
            click.echo(f"{manifest}: not checked: {title}")


@main.command()
@_MANIFEST
@_BOOTSTRAP_SERVERS
@_EMBEDDED
@_STATE_DIR
@click.option(
    "--drain",
    is_flag=True,
    help="Stop once every message that is in the input now is processed.",
)
@click.option(
    "--drain-timeout",
    type=DurationType(),
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
    embedded: bool,
    state_dir: Path | None,
    drain: bool,
    drain_timeout: timedelta,
    kafka_properties: Path | None,
    partitions: int | None,
) -> None:
    """Run a stream: one worker per partition, and the routers of spec.repartition."""
    options = RunOptions(
        bootstrap_servers=bootstrap_servers,
        embedded=embedded,
        state_dir=state_dir,
        drain_stall_seconds=drain_timeout.total_seconds() if drain else None,
        kafka_properties=kafka_properties,
        partitions=partitions,
        manifest=manifest,
    )
    with _errors_as_messages():
        run_stream(load_manifest(manifest), options, RunConsole())


@main.command()
@_MANIFEST
@report_options
@request_options
@_BOOTSTRAP_SERVERS
@_EMBEDDED
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
    embedded: bool,
    state_dir: Path | None,
    kafka_properties: Path | None,
    partitions: int | None,
    only: tuple[int, ...],
    report: Report,
    **request: Unpack[RequestValues],
) -> None:
    """Fill the stores of a new stream with ids of earlier deliveries.

    The ids come from a topic, or from files with a column for the id, a column for its time and, if needed, a column
    for its partition. After an interruption the same command resumes.
    """
    options = BootstrapOptions(
        bootstrap_servers=bootstrap_servers,
        embedded=embedded,
        state_dir=state_dir,
        kafka_properties=kafka_properties,
        partitions=partitions,
        only=only,
    )
    with _errors_as_messages():
        bootstrap_stream(load_manifest(manifest), make_request(**request), options, report)


@main.command("index-filters")
@_MANIFEST
@report_options
@_BOOTSTRAP_SERVERS
@_EMBEDDED
@_STATE_DIR
@_KAFKA_PROPERTIES
def index_filters_command(
    *,
    manifest: Path,
    bootstrap_servers: str | None,
    embedded: bool,
    state_dir: Path | None,
    kafka_properties: Path | None,
    report: Report,
) -> None:
    """Write the filters that are missing for the output topic.

    Filters are missing for records from before spec.output.filter was set, or if its source was another one. The
    command can run while the stream's workers run, and can be repeated: existing filters stay as they are. After an
    interruption the same command resumes.
    """
    options = KafkaOptions(
        bootstrap_servers=bootstrap_servers,
        embedded=embedded,
        state_dir=state_dir,
        kafka_properties=kafka_properties,
    )
    with _errors_as_messages():
        index_filters(load_manifest(manifest), options, report)


main.add_command(size_command)
add_help_and_version(main)


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    """Show an error that the user can mend as a message, with its exit code."""
    try:
        yield
    except (ManifestError, InvalidConfig, Refused) as error:
        raise CommandFailed(str(error), ExitStatus.USAGE) from error
    except (StreamError, OSError) as error:
        raise CommandFailed(str(error), ExitStatus.FAILED) from error
