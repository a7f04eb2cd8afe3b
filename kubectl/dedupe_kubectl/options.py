"""What the commands of `kubectl dedupe` have in common: the cluster they are about, waiting, and the terminal."""

import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from dedupe_kubectl.api import connect
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.waiting import Clock

_PIPED_WIDTH: Final = 1000
_CLUSTER_OPTIONS: Final = (
    click.option("-n", "--namespace", help="Namespace; the context's if absent."),
    click.option("--context", help="Context of the kubeconfig; the current one if absent."),
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Kubeconfig file; KUBECONFIG or ~/.kube/config if absent.",
    ),
)
STREAM: Final = click.argument("stream")
PARTITIONS: Final = click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="One of these partitions, and again for more; all of them if absent.",
)
OUTPUT: Final = click.option("-o", "--output", type=click.Choice(["json"]), help="For programs.")
WAIT: Final = click.option("--wait", is_flag=True, help="Wait until it is done.")
TIMEOUT: Final = click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="With --wait: give up after so long.",
)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
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


def terminal() -> Console:
    """A terminal as wide as it is; what is read by programs is not folded."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


def current_clock() -> Clock:
    """Return the clock that the command was started with, by default that of the machine."""
    clock: Clock | None = click.get_current_context().obj
    return clock or time
