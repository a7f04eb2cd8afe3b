"""The `kubectl dedupe` command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from dedupe_kubectl.api import Target, connect
from dedupe_kubectl.change import Change, carry_out, restart_change, suspend_change
from dedupe_kubectl.describe import describe
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.status import StatusOptions, show_status

_PIPED_WIDTH: Final = 1000
_STREAM: Final = click.argument("stream")
_Command = Callable[..., Any]


def _cluster_options(command: _Command) -> _Command:
    """The options of kubectl that choose a cluster and a namespace."""
    for option in (
        click.option("-n", "--namespace", help="Namespace; the context's if absent."),
        click.option("--context", help="Context of the kubeconfig; the current one if absent."),
        click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Kubeconfig file; KUBECONFIG or ~/.kube/config if absent.",
        ),
    ):
        command = option(command)
    return command


def _wait_options(command: _Command) -> _Command:
    for option in (
        click.option("--wait", is_flag=True, help="Wait until all partitions have followed."),
        click.option(
            "--timeout",
            type=click.IntRange(min=1),
            default=600,
            show_default=True,
            metavar="SECONDS",
            help="With --wait: give up after so long.",
        ),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dedupestream")
def main() -> None:
    """See and steer the DedupeStreams of a cluster."""


@main.command()
@click.argument("stream", required=False)
@_cluster_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Streams of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Go on until interrupted.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="For programs.")
def status(
    *,
    stream: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: Path | None,
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
    with _told_plainly():
        target = connect(kubeconfig, context)
        options = StatusOptions(
            stream=stream,
            namespace=None if all_namespaces else namespace or target.namespace,
            watch=watch,
            json=output == "json",
        )
        show_status(target.api, options, _console())


@main.command()
@_STREAM
@_cluster_options
@_wait_options
def suspend(*, stream: str, wait: bool, timeout: int, **cluster: Any) -> None:  # noqa: ANN401 # options of kubectl
    """Stop all workers of a stream, and keep their volumes."""
    _change(suspend_change(stream, suspend=True), wait, timeout, cluster)


@main.command()
@_STREAM
@_cluster_options
@_wait_options
def resume(*, stream: str, wait: bool, timeout: int, **cluster: Any) -> None:  # noqa: ANN401 # options of kubectl
    """Start the workers of a suspended stream again."""
    _change(suspend_change(stream, suspend=False), wait, timeout, cluster)


@main.command()
@_STREAM
@_cluster_options
@_wait_options
def restart(*, stream: str, wait: bool, timeout: int, **cluster: Any) -> None:  # noqa: ANN401 # options of kubectl
    """Restart all workers of a stream, one partition after another."""
    _change(restart_change(stream, datetime.now(UTC)), wait, timeout, cluster)


@main.command("describe-problem")
@_STREAM
@_cluster_options
def describe_problem(*, stream: str, **cluster: Any) -> None:  # noqa: ANN401 # options of kubectl
    """Say what is wrong with a stream, why, and what to do.

    The exit code is 0 if nothing is wrong, and 1 if something is.
    """
    with _told_plainly():
        target, namespace = _target(cluster)
        wrong = describe(target.api, namespace, stream, datetime.now(UTC), click.echo)
    if wrong:
        raise click.exceptions.Exit(1)


def _change(change: Change, wait: bool, timeout: int, cluster: dict[str, Any]) -> None:
    with _told_plainly():
        target, namespace = _target(cluster)
        carry_out(
            target.api, namespace, change, timeout_seconds=timeout if wait else None,
            console=_console(),
        )  # fmt: skip


def _console() -> Console:
    """A terminal as wide as it is; what is read by programs is not folded."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


def _target(cluster: dict[str, Any]) -> tuple[Target, str]:
    target = connect(cluster["kubeconfig"], cluster["context"])
    return target, cluster["namespace"] or target.namespace


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Show what users can mend as one line, and only the rest as a traceback."""
    try:
        yield
    except PluginError as error:
        raise click.ClickException(str(error)) from error
