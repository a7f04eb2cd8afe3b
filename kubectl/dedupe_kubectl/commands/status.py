"""`kubectl dedupe status`: a table once, as JSON, or again and again."""

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
@click.option("-A", "--all-namespaces", is_flag=True, help="Streams of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Go on until interrupted.")
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
    show_status(api, options, terminal(), current_clock())


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """What to show: one stream or all of them, of one `namespace` or of all."""

    stream: str | None
    namespace: str | None
    watch: bool
    json: bool


def show_status(api: Api, options: StatusOptions, console: Console, clock: Clock) -> None:
    """Show it, once or until interrupted.

    Raises:
        PluginError: it can't be read. A watch goes on when the API server is away for a while.
    """
    rates = Rates()
    if options.json:
        console.out(as_json(_document(api, options, rates, clock)), highlight=False)
    elif options.watch:
        _watch(lambda: _view(api, options, rates, clock), console, clock)
    else:
        print_table(console, _view(api, options, rates, clock))


def _view(api: Api, options: StatusOptions, rates: Rates, clock: Clock) -> RenderableType:
    """What is shown at one moment."""
    now = datetime.now(UTC)
    if options.stream:
        return render_stream(*_partitions(api, options, rates, clock), now)
    if streams := _streams(api, options.namespace):
        return streams_table(streams, now, with_namespace=options.namespace is None)
    if options.namespace is None:
        return "No DedupeStreams in any namespace; docs/reference.md says how to write one."
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
    return sorted(streams, key=lambda one: (one.namespace, one.name))


def _partitions(
    api: Api, options: StatusOptions, rates: Rates, clock: Clock
) -> tuple[StreamView, list[PartitionRow]]:
    """One view, or two where no other follows, because a rate needs two moments."""
    namespace, name = options.namespace or "default", options.stream or ""
    view = fetch_view(api, namespace, name)
    known = rates.observe(view.workers, clock.monotonic())
    if view.workers and not options.watch:
        clock.sleep(_RATE_SECONDS)
        view = fetch_view(api, namespace, name)
        known = rates.observe(view.workers, clock.monotonic())
    return view, partition_rows(view, known)


def _watch(view: Callable[[], RenderableType], console: Console, clock: Clock) -> None:
    """Draw anew on a terminal, print one after another elsewhere."""
    shown: RenderableType = ""
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                trouble: RenderableType | None = None
                try:
                    shown = view()
                except PluginError as error:
                    if not error.retriable:
                        raise
                    trouble = f"[red]{escape(str(error))}[/]"
                drawn = Group(shown, trouble) if trouble else shown
                if console.is_terminal:
                    live.update(drawn, refresh=True)
                else:
                    print_table(console, drawn)
                clock.sleep(_WATCH_SECONDS)
    except KeyboardInterrupt:
        return
