"""The command `dedupe-router`: one router of one stream."""

import os
import sys
from pathlib import Path
from typing import Final

import click
import structlog

from dedupe_crds.command_line import add_help_and_version
from dedupe_crds.local_path import LocalPath
from dedupe_httpd.address import parse_address
from dedupe_httpd.logs import configure_logs
from dedupe_kafka.errors import StreamError
from dedupe_router.config import load_config
from dedupe_router.process import run_router

_FILE: Final = LocalPath(exists=True, dir_okay=False)


@click.command(context_settings={"auto_envvar_prefix": "DEDUPE_ROUTER", "show_default": True})
@click.option("--config", "manifest", type=_FILE, required=True, help="The DedupeStream manifest.")
@click.option(
    "--router",
    type=click.IntRange(min=0, max=65535),
    required=True,
    help="Number of this router; no other router of the stream may have it.",
)
@click.option(
    "--http",
    "address",
    default="127.0.0.1:8080",
    help="HOST:PORT for HTTP; port 0 takes a free port.",
)
@click.option("--probe-address", help="HOST:PORT for GET /healthz and /readyz alone.")
@click.option(
    "--endpoint-file",
    type=LocalPath(),
    help="File to write the HTTP address to, as HOST:PORT.",
)
@click.option(
    "--kafka-properties", type=_FILE, help="librdkafka properties (SASL, TLS), key=value lines."
)
def main(  # noqa: PLR0917 (click passes each option by name)
    manifest: Path,
    router: int,
    address: str,
    probe_address: str | None,
    endpoint_file: Path | None,
    kafka_properties: Path | None,
) -> None:
    """Send each record of the inputs to the partition of its id, until SIGTERM.

    Exit codes: 0 stopped; 64 configuration; 70 stuck; 1 anything else.
    """
    configure_logs()
    try:
        config = load_config(manifest=manifest, router=router, kafka_properties=kafka_properties)
        host, port = parse_address("--http", address)
        code = run_router(
            config,
            host=host,
            port=port,
            probes=parse_address("--probe-address", probe_address) if probe_address else None,
            endpoint_file=endpoint_file,
        )
    except StreamError as error:
        structlog.get_logger().error("router can't start", reason=error.reason, error=str(error))
        sys.exit(error.exit_code)
    # All is done and closed. Shutting the interpreter down under librdkafka's threads has been seen to crash.
    sys.stderr.flush()
    os._exit(code)


add_help_and_version(main)
