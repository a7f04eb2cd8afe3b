"""`kubectl dedupe status`: a table once, as JSON, or again and again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape

from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import NoAccess
from dedupe_kubectl.objects import Stream, read_stream
from dedupe_kubectl.rows import PartitionRow, Rates, partition_rows
from dedupe_kubectl.stream_view import Look, look_at
from dedupe_kubectl.tables import (
    as_json,
    look_json,
    print_table,
    stream_json,
    stream_view,
    streams_table,
)

_RATE_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """What to show: one stream or all of them, of one `namespace` or of all."""

    stream: str | None
    namespace: str | None
    watch: bool
    json: bool


def show_status(api: Api, options: StatusOptions, console: Console) -> None:
    """Show it, once or until interrupted.

    Raises:
        PluginError: it can't be read. A watch goes on when the API server is away for a while.
    """
    rates = Rates()
    if options.json:
        console.out(as_json(_document(api, options, rates)), highlight=False)
    elif options.watch:
        _watch(lambda: _view(api, options, rates), console)
    else:
        print_table(console, _view(api, options, rates))


def _view(api: Api, options: StatusOptions, rates: Rates) -> RenderableType:
    """What is shown at one moment."""
    now = datetime.now(UTC)
    if options.stream:
        return stream_view(*_partitions(api, options, rates), now)
    if streams := _streams(api, options.namespace):
        return streams_table(streams, now, with_namespace=options.namespace is None)
    if options.namespace is None:
        return "No DedupeStreams in any namespace; docs/reference.md says how to write one."
    return (
        f"No DedupeStreams in namespace {escape(options.namespace)}; "
        "`kubectl dedupe status -A` shows those of all namespaces."
    )


def _document(api: Api, options: StatusOptions, rates: Rates) -> object:
    if options.stream:
        look, rows = _partitions(api, options, rates)
        return look_json(look, rows)
    return {"items": [stream_json(stream) for stream in _streams(api, options.namespace)]}


def _streams(api: Api, namespace: str | None) -> list[Stream]:
    streams = [read_stream(document) for document in api.streams(namespace)]
    return sorted(streams, key=lambda one: (one.namespace, one.name))


def _partitions(api: Api, options: StatusOptions, rates: Rates) -> tuple[Look, list[PartitionRow]]:
    """One look, or two where no other follows, because a rate needs two moments."""
    namespace, name = options.namespace or "default", options.stream or ""
    look = look_at(api, namespace, name)
    known = rates.observe(look.workers, time.monotonic())
    if look.workers and not options.watch:
        time.sleep(_RATE_SECONDS)
        look = look_at(api, namespace, name)
        known = rates.observe(look.workers, time.monotonic())
    return look, partition_rows(look, known)


def _watch(view: Callable[[], RenderableType], console: Console) -> None:
    """Draw anew on a terminal, print one after another elsewhere."""
    shown: RenderableType = ""
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                trouble: RenderableType | None = None
                try:
                    shown = view()
                except NoAccess as error:
                    trouble = f"[red]{escape(str(error))}[/]"
                drawn = Group(shown, trouble) if trouble else shown
                if console.is_terminal:
                    live.update(drawn, refresh=True)
                else:
                    print_table(console, drawn)
                time.sleep(_WATCH_SECONDS)
    except KeyboardInterrupt:
        return
