"""`kubectl dedupe status`: a table, JSON, or a table that is refreshed."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape

from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import PluginError
from dedupe_kubectl.objects import Stream, read_stream
from dedupe_kubectl.options import OUTPUT, current_clock, on_cluster, terminal
from dedupe_kubectl.stream_view import StreamView, fetch_view
from dedupe_kubectl.table_rows import PartitionRow, Rates, partition_rows
from dedupe_kubectl.tables import (
    as_json,
    print_table,
    render_stream,
    stream_json,
    streams_table,
    view_json,
)
from dedupe_kubectl.waiting import Clock

_RATE_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 2.0


@click.command("status")
@click.argument("stream", required=False)
@on_cluster
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the streams of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Refresh until interrupted.")
@OUTPUT
def status_command(
    *,
    api: Api,
    namespace: str,
    stream: str | None,
    all_namespaces: bool,
    watch: bool,
    output: str | None,
) -> None:
    """Show all streams, or one with its partitions.

    The rate is in messages per second. Lag is an upper bound of the messages still to process. The window is the
    age of the oldest id in the store. Duplicates are counted since the start of the worker.
    """
    if stream and all_namespaces:
        raise click.UsageError("a stream is in one namespace: use -n instead of -A")
    if watch and output:
        raise click.UsageError("--watch prints tables only: leave out -o")
    options = StatusOptions(
        stream=stream,
        namespace=None if all_namespaces else namespace,
        watch=watch,
        json=output == "json",
    )
    show_status(api, options, terminal(), current_clock())


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """Options of `status`; without `stream` or `namespace` it shows all."""

    stream: str | None
    namespace: str | None
    watch: bool
    json: bool


def show_status(api: Api, options: StatusOptions, console: Console, clock: Clock) -> None:
    """Print the status, once or until interrupted.

    Raises:
        PluginError: the streams cannot be read. A watch retries while the API server does not answer.
    """
    rates = Rates()
    if options.json:
        console.out(as_json(_document(api, options, rates, clock)), highlight=False)
    elif options.watch:
        _watch(lambda: _view(api, options, rates, clock), console, clock)
    else:
        print_table(console, _view(api, options, rates, clock))


def _view(api: Api, options: StatusOptions, rates: Rates, clock: Clock) -> RenderableType:
    """Fetch and render the current status."""
    now = datetime.now(UTC)
    if options.stream:
        return render_stream(*_partitions(api, options, rates, clock), now)
    if streams := _streams(api, options.namespace):
        return streams_table(streams, now, with_namespace=options.namespace is None)
    if options.namespace is None:
        return "No DedupeStreams in any namespace; docs/reference.md describes how to write one."
    return (
        f"No DedupeStreams in namespace {escape(options.namespace)}; "
        "`kubectl dedupe status -A` shows those of all namespaces."
    )


def _document(api: Api, options: StatusOptions, rates: Rates, clock: Clock) -> object:
    if options.stream:
        view, rows = _partitions(api, options, rates, clock)
        return view_json(view, rows)
    return {"items": [stream_json(stream) for stream in _streams(api, options.namespace)]}


def _streams(api: Api, namespace: str | None) -> list[Stream]:
    streams = [read_stream(document) for document in api.streams(namespace)]
    return sorted(streams, key=lambda stream: (stream.namespace, stream.name))


def _partitions(
    api: Api, options: StatusOptions, rates: Rates, clock: Clock
) -> tuple[StreamView, list[PartitionRow]]:
    """Fetch a stream and its rows.

    Unless the command watches, it is fetched twice: a rate needs two moments.
    """
    namespace, name = options.namespace or "default", options.stream or ""
    view = fetch_view(api, namespace, name)
    known = rates.observe(view.workers, clock.monotonic())
    if view.workers and not options.watch:
        clock.sleep(_RATE_SECONDS)
        view = fetch_view(api, namespace, name)
        known = rates.observe(view.workers, clock.monotonic())
    return view, partition_rows(view, known)


def _watch(view: Callable[[], RenderableType], console: Console, clock: Clock) -> None:
    """Redraw on a terminal; elsewhere print one table after another."""
    shown: RenderableType = ""
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                problem: RenderableType | None = None
                try:
                    shown = view()
                except PluginError as error:
                    if not error.retriable:
                        raise
                    problem = f"[red]{escape(str(error))}[/]"
                drawn = Group(shown, problem) if problem else shown
                if console.is_terminal:
                    live.update(drawn, refresh=True)
                else:
                    print_table(console, drawn)
                clock.sleep(_WATCH_SECONDS)
    except KeyboardInterrupt:
        return
