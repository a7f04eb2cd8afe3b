"""`dedupe-worker`: one partition of one stream."""

import os
import sys
from pathlib import Path

import click
import structlog

from dedupe_kafka.errors import InvalidConfig, StreamError
from dedupe_worker.config import load_config
from dedupe_worker.http_api import read_token
from dedupe_worker.parts import Parts
from dedupe_worker.process import configure_logs, run_worker

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(context_settings={"auto_envvar_prefix": "DEDUPE_WORKER", "show_default": True})
@click.option("--config", "manifest", type=_FILE, required=True, help="The DedupeStream manifest.")
@click.option(
    "--partition", type=click.IntRange(min=0, max=65535), required=True, help="The input partition."
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    required=True,
    help="This partition's own directory.",
)
@click.option(
    "--http",
    "address",
    default="127.0.0.1:8080",
    help="HOST:PORT to listen on; port 0 takes a free one.",
)
@click.option(
    "--endpoint-file",
    type=click.Path(path_type=Path),
    help="Where to write the address listened on.",
)
@click.option(
    "--kafka-properties", type=_FILE, help="librdkafka properties (SASL, TLS), key=value lines."
)
@click.option("--admin-token-file", type=_FILE, help="Token that POST requests must carry.")
def main(  # noqa: PLR0917 (click passes each option by name)
    manifest: Path,
    partition: int,
    state_dir: Path,
    address: str,
    endpoint_file: Path | None,
    kafka_properties: Path | None,
    admin_token_file: Path | None,
) -> None:
    """Deduplicate one partition of a stream, exactly once, until SIGTERM.

    Exit codes: 0 stopped; 64 configuration; 65 state directory of another stream or partition; 66 fenced by a newer
    worker; 67 state directory in use; 68 not available in this version; 70 stuck; 1 anything else.
    """
    configure_logs()
    log = structlog.get_logger()
    try:
        config = load_config(
            manifest=manifest,
            partition=partition,
            state_dir=state_dir,
            kafka_properties=kafka_properties,
        )
        host, port = _parse_address(address)
        code = run_worker(
            Parts(config),
            host=host,
            port=port,
            endpoint_file=endpoint_file,
            token=read_token(admin_token_file),
        )
    except StreamError as error:
        log.error("worker can't start", reason=error.reason, error=str(error))
        sys.exit(error.exit_code)
    # All is done and closed. Taking the interpreter down under librdkafka's threads has been seen to crash.
    sys.stderr.flush()
    os._exit(code)


def _parse_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidConfig(
            f"--http: {address!r} is not of the form HOST:PORT, such as 0.0.0.0:8080"
        )
    return host, int(port)
