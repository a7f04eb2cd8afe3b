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
from dedupe_kubectl.errors import Forbidden, NoAccess, NotFound
from dedupe_kubectl.look import Look, look_at
from dedupe_kubectl.objects import read_stream
from dedupe_kubectl.rows import PartitionRow, Rates, StreamRow, partition_rows, stream_row
from dedupe_kubectl.tables import as_json, look_json, stream_json, stream_view, streams_table

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
    if options.json:
        console.out(_json(api, options), highlight=False)
    elif options.watch:
        _watch(_view(api, options), console)
    else:
        _print(console, _view(api, options, sample=True)())


def _view(
    api: Api, options: StatusOptions, *, sample: bool = False
) -> Callable[[], RenderableType]:
    """What is shown at one moment; with `sample` it looks twice, because a rate needs two moments."""
    if options.stream is None:
        return lambda: _streams(api, options)
    name, namespace, rates = options.stream, options.namespace or "default", Rates()

    def view() -> RenderableType:
        look, rows = _partitions(api, namespace, name, rates, sample=sample)
        return stream_view(look, rows, datetime.now(UTC))

    return view


def _streams(api: Api, options: StatusOptions) -> RenderableType:
    rows = _stream_rows(api, options.namespace)
    if not rows and options.namespace is None:
        return "No DedupeStreams in any namespace; docs/reference.md says how to write one."
    if not rows:
        return (
            f"No DedupeStreams in namespace {escape(options.namespace or '')}; "
            "`kubectl dedupe status -A` shows those of all namespaces."
        )
    return streams_table(rows, datetime.now(UTC), with_namespace=options.namespace is None)


def _stream_rows(api: Api, namespace: str | None) -> list[StreamRow]:
    streams = [read_stream(document) for document in api.streams(namespace)]
    return [
        stream_row(stream) for stream in sorted(streams, key=lambda one: (one.namespace, one.name))
    ]


def _partitions(
    api: Api, namespace: str, name: str, rates: Rates, *, sample: bool
) -> tuple[Look, list[PartitionRow]]:
    look = look_at(api, namespace, name)
    known = rates.observe(look.workers, time.monotonic())
    if sample and look.workers:
        time.sleep(_RATE_SECONDS)
        look = look_at(api, namespace, name)
        known = rates.observe(look.workers, time.monotonic())
    return look, partition_rows(look, known)


def _json(api: Api, options: StatusOptions) -> str:
    if options.stream is None:
        return as_json(
            {"items": [stream_json(row) for row in _stream_rows(api, options.namespace)]}
        )
    namespace = options.namespace or "default"
    look, rows = _partitions(api, namespace, options.stream, Rates(), sample=True)
    return as_json(look_json(look, stream_row(look.stream), rows))


def _watch(view: Callable[[], RenderableType], console: Console) -> None:
    """Draw anew on a terminal, print one after another elsewhere."""
    shown: RenderableType = ""
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                trouble: RenderableType | None = None
                try:
                    shown = view()
                except (Forbidden, NotFound):
                    raise
                except NoAccess as error:
                    trouble = f"[red]{escape(str(error))}[/]"
                drawn = Group(shown, trouble) if trouble else shown
                if console.is_terminal:
                    live.update(drawn, refresh=True)
                else:
                    _print(console, drawn)
                time.sleep(_WATCH_SECONDS)
    except KeyboardInterrupt:
        return


def _print(console: Console, drawn: RenderableType) -> None:
    """Print it, without the blanks that fill the last column where a program reads it."""
    if console.is_terminal:
        console.print(drawn)
        return
    with console.capture() as captured:
        console.print(drawn)
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)
