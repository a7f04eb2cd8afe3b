"""The `kubectl dedupe` command."""

from datetime import UTC, datetime
from typing import Any

import click

from dedupe_kubectl.api import Api
from dedupe_kubectl.commands import id_commands, recovery
from dedupe_kubectl.commands.describe_problem import describe
from dedupe_kubectl.commands.lifecycle import Change, carry_out, restart_change, suspend_change
from dedupe_kubectl.commands.status import StatusOptions, show_status
from dedupe_kubectl.options import OUTPUT, STREAM, TIMEOUT, WAIT, on_cluster, terminal


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dedupestream")
def main() -> None:
    """See and steer the DedupeStreams of a cluster."""


@main.command()
@click.argument("stream", required=False)
@on_cluster
@click.option("-A", "--all-namespaces", is_flag=True, help="Streams of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Go on until interrupted.")
@OUTPUT
def status(
    *,
    api: Api,
    namespace: str,
    stream: str | None,
    all_namespaces: bool,
    watch: bool,
    output: str | None,
) -> None:
    """Show all streams, or one with its partitions.

    The rate is in messages a second. Lag is an upper bound of the messages to come. The window is the
    age of the oldest id that is still known. Duplicates are those since a worker started.
    """
    if stream and all_namespaces:
        raise click.UsageError("a stream is in one namespace: give -n and not -A")
    if watch and output:
        raise click.UsageError("--watch is for people: leave out -o")
    options = StatusOptions(
        stream=stream,
        namespace=None if all_namespaces else namespace,
        watch=watch,
        json=output == "json",
    )
    show_status(api, options, terminal())


@main.command()
@STREAM
@on_cluster
@TIMEOUT
@WAIT
def suspend(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Stop all workers of a stream, and keep their volumes."""
    _change(suspend_change(stream, suspend=True), **how)


@main.command()
@STREAM
@on_cluster
@TIMEOUT
@WAIT
def resume(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Start the workers of a suspended stream again."""
    _change(suspend_change(stream, suspend=False), **how)


@main.command()
@STREAM
@on_cluster
@TIMEOUT
@WAIT
def restart(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Restart all workers of a stream, one partition after another."""
    _change(restart_change(stream, datetime.now(UTC)), **how)


@main.command("describe-problem")
@STREAM
@on_cluster
def describe_problem(*, api: Api, namespace: str, stream: str) -> None:
    """Say what is wrong with a stream, why, and what to do.

    The exit code is 0 if nothing is wrong, and 1 if something is.
    """
    if describe(api, namespace, stream, datetime.now(UTC), click.echo):
        raise click.exceptions.Exit(1)


def _change(change: Change, *, api: Api, namespace: str, wait: bool, timeout: int) -> None:
    limit = timeout if wait else None
    carry_out(api, namespace, change, timeout_seconds=limit, console=terminal())


for command in (*recovery.COMMANDS, *id_commands.COMMANDS):
    main.add_command(command)
