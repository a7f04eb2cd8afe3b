"""The command `dedupe-worker`: one partition of one stream."""

import os
import sys
from pathlib import Path
from typing import Final, Unpack

import click
import structlog

from dedupe_crds.command_line import add_help_and_version
from dedupe_crds.local_path import LocalPath
from dedupe_crds.stop_signals import Interrupted
from dedupe_httpd.address import parse_address
from dedupe_httpd.logs import configure_logs
from dedupe_kafka.errors import InvalidConfig, StreamError
from dedupe_worker.admin.http_api import read_token
from dedupe_worker.bootstrap.request import (
    RequestValues,
    logged_bootstrap,
    make_request,
    request_options,
)
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import load_config
from dedupe_worker.process import run_worker

_FILE = LocalPath(exists=True, dir_okay=False)


_SETTINGS: Final = {"auto_envvar_prefix": "DEDUPE_WORKER", "show_default": True}
_CONFIG = click.option(
    "--config", "manifest", type=_FILE, required=True, help="The DedupeStream manifest."
)
_PARTITION = click.option(
    "--partition", type=click.IntRange(min=0, max=65535), required=True, help="The input partition."
)
_STATE_DIR = click.option(
    "--state-dir",
    type=LocalPath(),
    required=True,
    help="Directory for this partition's state; no other partition may use it.",
)
_KAFKA_PROPERTIES = click.option(
    "--kafka-properties", type=_FILE, help="librdkafka properties (SASL, TLS), key=value lines."
)


_HELP: Final = ("-h", "--help")
NATIVE: Final = "DEDUPE_EXPERIMENTAL_NATIVE"
"""With this variable, of any value, a worker has the experimental data path: docs/decisions/0050."""


def component_factory() -> type[ComponentFactory]:
    """Return the factory of the worker's components. Raises InvalidConfig."""
    if not os.environ.get(NATIVE):
        return ComponentFactory
    try:
        from dedupe_native.factory import NativeFactory  # noqa: PLC0415 (not installed by default)
    except ImportError as error:
        raise InvalidConfig(f"{NATIVE} is set: {error}; see docs/decisions/0050") from error
    return NativeFactory


class _Commands(click.Group):
    """Run a partition, unless the first argument is another command or asks for help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *_HELP):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Commands)
def main() -> None:
    """Deduplicate one partition of a stream, or bootstrap its store.

    Without the name of a command, the options are those of `run`.
    """


@main.command(context_settings=_SETTINGS)
@_CONFIG
@_PARTITION
@_STATE_DIR
@click.option(
    "--http",
    "address",
    default="127.0.0.1:8080",
    help="HOST:PORT for HTTP; port 0 takes a free port.",
)
@click.option(
    "--probe-address",
    help="HOST:PORT for GET /healthz and /readyz alone, which no admin call keeps busy. "
    "--http serves both, too.",
)
@click.option(
    "--endpoint-file",
    type=LocalPath(),
    help="File to write the HTTP address to, as HOST:PORT.",
)
@_KAFKA_PROPERTIES
@click.option(
    "--admin-token-file", type=_FILE, help="File with the token that POST requests must carry."
)
@click.option(
    "--restore-from",
    metavar="SNAPSHOT",
    help="Fill an empty state directory from this snapshot in the stream's bucket.",
)
@click.option(
    "--restore-location",
    metavar="JSON",
    help="Where that snapshot lies, if not in the manifest's bucket: bucket, prefix, region, endpoint.",
)
@click.option(
    "--fenced-file",
    type=LocalPath(),
    help="File to create when another worker takes over; while it exists, this worker only idles.",
)
def run(  # noqa: PLR0917 (click passes each option by name)
    manifest: Path,
    partition: int,
    state_dir: Path,
    address: str,
    probe_address: str | None,
    endpoint_file: Path | None,
    kafka_properties: Path | None,
    admin_token_file: Path | None,
    restore_from: str | None,
    restore_location: str | None,
    fenced_file: Path | None,
) -> None:
    """Deduplicate one partition of a stream, exactly once, until SIGTERM.

    For the command that fills the store of a new stream, see `bootstrap --help`.

    Exit codes: 0 stopped; 64 configuration; 65 state directory of another stream or partition; 66 fenced by a newer
    worker; 67 state directory in use; 70 stuck; 1 anything else.
    """
    configure_logs()
    log = structlog.get_logger()
    try:
        config = load_config(
            manifest=manifest,
            partition=partition,
            state_dir=state_dir,
            kafka_properties=kafka_properties,
            restore_from=restore_from,
            restore_location=restore_location,
            fenced_file=fenced_file,
        )
        host, port = parse_address("--http", address)
        code = run_worker(
            component_factory()(config),
            host=host,
            port=port,
            probes=parse_address("--probe-address", probe_address) if probe_address else None,
            endpoint_file=endpoint_file,
            token=read_token(admin_token_file),
        )
    except StreamError as error:
        log.error("worker can't start", reason=error.reason, error=str(error))
        sys.exit(error.exit_code)
    # All is done and closed. Shutting the interpreter down under librdkafka's threads has been seen to crash.
    sys.stderr.flush()
    os._exit(code)


@main.command(context_settings=_SETTINGS)
@_CONFIG
@_PARTITION
@_STATE_DIR
@_KAFKA_PROPERTIES
@request_options
def bootstrap(
    *,
    manifest: Path,
    partition: int,
    state_dir: Path,
    kafka_properties: Path | None,
    **request: Unpack[RequestValues],
) -> None:
    """Fill the store of a new stream's partition with ids delivered earlier.

    The worker must not run, and both topics must exist. If it is interrupted, run the same command again: it resumes.
    Once it is complete, the command reports that and exits with 0. Exit codes are those of the worker; 143, 130 or
    129 if SIGTERM, SIGINT or SIGHUP ended it before it was complete.
    """

    configure_logs()
    try:
        config = load_config(
            manifest=manifest,
            partition=partition,
            state_dir=state_dir,
            kafka_properties=kafka_properties,
        )
        logged_bootstrap(config, make_request(**request))
    except StreamError as error:
        structlog.get_logger().error("bootstrap failed", reason=error.reason, error=str(error))
        sys.exit(error.exit_code)
    except Interrupted as interrupted:
        structlog.get_logger().error("bootstrap ends before it is done", why=str(interrupted))
        sys.stderr.flush()
        os._exit(interrupted.exit_code)  # as above: consumers may still be open


add_help_and_version(main)
