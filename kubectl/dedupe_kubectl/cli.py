"""The `kubectl dedupe` command."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from dedupe_kubectl.api import Api, connect
from dedupe_kubectl.change import Change, carry_out, restart_change, suspend_change
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.problems import describe
from dedupe_kubectl.status import StatusOptions, show_status

_PIPED_WIDTH: Final = 1000
_STREAM: Final = click.argument("stream")
_CLUSTER_OPTIONS: Final = (
    click.option("-n", "--namespace", help="Namespace; the context's if absent."),
    click.option("--context", help="Context of the kubeconfig; the current one if absent."),
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Kubeconfig file; KUBECONFIG or ~/.kube/config if absent.",
    ),
)
_WAIT: Final = click.option("--wait", is_flag=True, help="Wait until all partitions have followed.")
_TIMEOUT: Final = click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="With --wait: give up after so long.",
)


def _on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Hand over the cluster that the options of kubectl choose, and the namespace.

    What users can mend is shown as one line, and only the rest as a traceback.
    """

    @wraps(command)
    def connected(
        *, namespace: str | None, context: str | None, kubeconfig: Path | None, **options: object
    ) -> None:
        try:
            api, default = connect(kubeconfig, context)
            command(api=api, namespace=namespace or default, **options)
        except PluginError as error:
            raise click.ClickException(str(error)) from error

    for option in _CLUSTER_OPTIONS:
        connected = option(connected)
    return connected


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dedupestream")
def main() -> None:
    """See and steer the DedupeStreams of a cluster."""


@main.command()
@click.argument("stream", required=False)
@_on_cluster
@click.option("-A", "--all-namespaces", is_flag=True, help="Streams of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Go on until interrupted.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="For programs.")
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
    show_status(api, options, _console())


@main.command()
@_STREAM
@_on_cluster
@_TIMEOUT
@_WAIT
def suspend(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Stop all workers of a stream, and keep their volumes."""
    _change(suspend_change(stream, suspend=True), **how)


@main.command()
@_STREAM
@_on_cluster
@_TIMEOUT
@_WAIT
def resume(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Start the workers of a suspended stream again."""
    _change(suspend_change(stream, suspend=False), **how)


@main.command()
@_STREAM
@_on_cluster
@_TIMEOUT
@_WAIT
def restart(*, stream: str, **how: Any) -> None:  # noqa: ANN401 # passed on
    """Restart all workers of a stream, one partition after another."""
    _change(restart_change(stream, datetime.now(UTC)), **how)


@main.command("describe-problem")
@_STREAM
@_on_cluster
def describe_problem(*, api: Api, namespace: str, stream: str) -> None:
    """Say what is wrong with a stream, why, and what to do.

    The exit code is 0 if nothing is wrong, and 1 if something is.
    """
    if describe(api, namespace, stream, datetime.now(UTC), click.echo):
        raise click.exceptions.Exit(1)


def _change(change: Change, *, api: Api, namespace: str, wait: bool, timeout: int) -> None:
    limit = timeout if wait else None
    carry_out(api, namespace, change, timeout_seconds=limit, console=_console())


def _console() -> Console:
    """A terminal as wide as it is; what is read by programs is not folded."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console
