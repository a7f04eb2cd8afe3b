"""The commands about snapshots, restores and reconciles."""

import sys
from datetime import UTC, datetime
from typing import Final

import click
from rich.markup import escape

from dedupe_kubectl.api import Api
from dedupe_kubectl.commands import reconcile as comparison
from dedupe_kubectl.commands import restore as restoring
from dedupe_kubectl.commands.snapshots import find_snapshots, new_name, snapshot_json, take
from dedupe_kubectl.options import OUTPUT, PARTITIONS, STREAM, TIMEOUT, WAIT, on_cluster, terminal
from dedupe_kubectl.tables import as_json, print_table, snapshots_table


@click.command()
@STREAM
@on_cluster
@PARTITIONS
@click.option("--name", help="Its name; the stream's with the time if absent.")
@TIMEOUT
@WAIT
def snapshot(
    *,
    api: Api,
    namespace: str,
    stream: str,
    partitions: tuple[int, ...],
    name: str | None,
    timeout: int,
    wait: bool,
) -> None:
    """Make a snapshot of a stream now.

    The providers and what they need are in spec.snapshots. What is made by hand is not pruned: delete it
    with `kubectl delete dedupesnapshot NAME`.
    """
    take(
        api,
        namespace,
        stream,
        name=name or new_name(stream, datetime.now(UTC)),
        partitions=partitions,
        timeout_seconds=timeout if wait else None,
        console=terminal(),
    )


@click.command()
@click.argument("stream", required=False)
@on_cluster
@OUTPUT
def snapshots(*, api: Api, namespace: str, stream: str | None, output: str | None) -> None:
    """Show the snapshots of a stream, or of all streams, the newest first."""
    console = terminal()
    found = find_snapshots(api, namespace, stream)
    if output:
        console.out(as_json({"items": [snapshot_json(one) for one in found]}), highlight=False)
    elif found:
        print_table(console, snapshots_table(found, datetime.now(UTC)))
    else:
        whose = f"of {stream} " if stream else ""
        console.print(escape(f"No snapshots {whose}in namespace {namespace}."), soft_wrap=True)


@click.command()
@STREAM
@on_cluster
@click.option("-p", "--partition", type=click.IntRange(min=0), required=True, help="Which.")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="SNAPSHOT|OutputTopic",
    help="A DedupeSnapshot, or OutputTopic to rebuild the store from what that holds.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@TIMEOUT
@WAIT
def restore(
    *,
    api: Api,
    namespace: str,
    stream: str,
    partition: int,
    source: str,
    yes: bool,
    timeout: int,
    wait: bool,
) -> None:
    """Give a partition a new volume, from a snapshot or from the output topic.

    The volume it has is kept, and the other partitions go on.
    """
    restoring.restore(
        api,
        namespace,
        restoring.Wish(stream=stream, partition=partition, source=source),
        agreed=lambda what: yes or _asks(what),
        timeout_seconds=timeout if wait else None,
        console=terminal(),
        now=datetime.now(UTC),
    )


@click.command()
@STREAM
@on_cluster
@PARTITIONS
@click.option("--full", is_flag=True, help="Compare the whole stores, both ways.")
@TIMEOUT
@WAIT
def reconcile(
    *,
    api: Api,
    namespace: str,
    stream: str,
    partitions: tuple[int, ...],
    full: bool,
    timeout: int,
    wait: bool,
) -> None:
    """Reconcile the stores of a stream with its output topic.

    A worker does so by itself whenever it starts, from where its store ends. With --full the whole store
    is compared with all that the output topic holds: ids that are missing are added, and those that no
    output record has are removed. A partition passes nothing on meanwhile.
    """
    comparison.reconcile(
        api,
        namespace,
        stream,
        partitions=partitions,
        full=full,
        timeout_seconds=timeout if wait else None,
        console=terminal(),
        now=datetime.now(UTC),
    )


COMMANDS: Final = (snapshot, snapshots, restore, reconcile)


def _asks(what: str) -> bool:
    """Ask the person at the terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: give --yes")
    click.echo(what)
    return click.confirm("Go on?")
