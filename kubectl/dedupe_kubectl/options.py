"""The options that commands share, and the process's terminal and clock."""

import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from dedupe_crds.exit_status import CommandFailed, ExitStatus
from dedupe_crds.local_path import LocalPath
from dedupe_kubectl.api import connect
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.waiting import Clock

_PIPED_WIDTH: Final = 1000
_CLUSTER_OPTIONS: Final = (
    click.option("-n", "--namespace", help="Namespace. Default: that of the context."),
    click.option("--context", help="Context of the kubeconfig. Default: the current context."),
    click.option(
        "--kubeconfig",
        type=LocalPath(dir_okay=False),
        help="Kubeconfig file. Default: KUBECONFIG, or ~/.kube/config.",
    ),
)
STREAM: Final = click.argument("stream")
PARTITIONS: Final = click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Partition number (repeatable). Default: all partitions.",
)
OUTPUT: Final = click.option("-o", "--output", type=click.Choice(["json"]), help="Output format.")
WAIT: Final = click.option("--wait", is_flag=True, help="Wait until the request is completed.")
TIMEOUT: Final = click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="With --wait: fail after this time.",
)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add kubectl's options to a command, and pass it the `api` and the `namespace`.

    A PluginError is printed as one line; any other error is a bug and shown as a traceback.
    """

    @wraps(command)
    def connected(
        *, namespace: str | None, context: str | None, kubeconfig: Path | None, **options: object
    ) -> None:
        try:
            api, default = connect(kubeconfig, context)
            command(api=api, namespace=namespace or default, **options)
        except PluginError as error:
            raise CommandFailed(str(error), ExitStatus.FAILED) from error

    for option in _CLUSTER_OPTIONS:
        connected = option(connected)
    return connected


def terminal() -> Console:
    """Return a console as wide as the terminal; piped output is not folded."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


def current_clock() -> Clock:
    """Return the clock that the command was started with, by default the machine's."""
    clock: Clock | None = click.get_current_context().obj
    return clock or time
