"""The commands about single ids."""

from typing import Final

import click

from dedupe_kubectl.api import Api
from dedupe_kubectl.commands import ids as asking
from dedupe_kubectl.options import OUTPUT, STREAM, on_cluster, terminal

_IDS: Final = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.command()
@STREAM
@_IDS
@on_cluster
@OUTPUT
def lookup(
    *, api: Api, namespace: str, stream: str, ids: tuple[str, ...], output: str | None
) -> None:
    """Say what a stream knows of ids.

    Known or not, in which partition, the record (partition:offset of the input) it was first seen in, since when,
    and which part of the store has it. The exit code is 0 if all are known, and 1 if some are not.
    """
    found = asking.lookup(api, namespace, stream, ids)
    asking.show(found, terminal(), json=output == "json")
    if not all(one.known for one in found):
        raise click.exceptions.Exit(1)


@click.command()
@STREAM
@_IDS
@on_cluster
def forget(*, api: Api, namespace: str, stream: str, ids: tuple[str, ...]) -> None:
    """Have a stream forget ids, so that the next message with each passes.

    A store that is rebuilt from the output topic, or compared with it in full, learns them again.
    """
    forgotten = asking.forget(api, namespace, stream, ids)
    asking.tell_forgotten(stream, ids, forgotten, terminal())


COMMANDS: Final = (lookup, forget)
