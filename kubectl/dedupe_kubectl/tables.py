"""The tables that the commands print, and the same content as JSON.

Invariant: text from the cluster is escaped, so that brackets in it are no markup.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic.alias_generators import to_camel
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from dedupe_crds.formatting import UNKNOWN, count, duration, share, size
from dedupe_kubectl.growth_lines import growth_line
from dedupe_kubectl.objects import Snapshot, Stream
from dedupe_kubectl.router_lines import routers_json, routers_line
from dedupe_kubectl.stream_view import StreamView
from dedupe_kubectl.table_rows import PartitionRow, seconds, stream_note, stream_state

_GOOD: Final = {"Running", "True", "Completed"}
_BAD: Final = {"Failed", "False"}
_TEXTS: Final = {"PHASE", "POD", "NODE", "VOLUME", "RESTORED FROM", "NOTE", "ID"}
_NAMES: Final = {
    "NAMESPACE",
    "NAME",
    "READY",
    "STATE",
    "STREAM",
    "PROVIDER",
    "KNOWN",
    "SINCE",
    "GENERATION",
}

_Number = TypeVar("_Number", int, float)


def streams_table(streams: Sequence[Stream], now: datetime, *, with_namespace: bool) -> Table:
    """Build the table of streams."""
    lines = [
        {
            "NAMESPACE": stream.namespace,
            "NAME": stream.name,
            "READY": _coloured(_ready(stream)),
            "STATE": stream_state(stream),
            "PARTITIONS": stream.status.partitions_ready or UNKNOWN,
            "WINDOW": duration(seconds(stream.status.window)),
            "DUPLICATES": count(stream.status.duplicates),
            "LAG": count(stream.status.lag_messages),
            "AGE": duration((now - stream.created).total_seconds()),
            "NOTE": escape(stream_note(stream)),
        }
        for stream in streams
    ]
    return table(lines, without=set() if with_namespace else {"NAMESPACE"})


def render_stream(view: StreamView, rows: Sequence[PartitionRow], now: datetime) -> RenderableType:
    """Build what `status STREAM` shows: a headline, notes and the table of partitions."""
    parts: list[RenderableType] = [escape(_headline(view.stream))]
    if note := stream_note(view.stream):
        parts.append(f"[yellow]{escape(note)}[/]")
    if routers := view.stream.status.routers:
        parts.append(escape(routers_line(routers)))
    if line := growth_line(view.stream):
        parts.append(escape(line))
    parts += [f"[dim]{escape(line)}[/]" for line in view.unavailable]
    if rows:
        parts.append(partitions_table(rows, now))
    return Group(*parts)


def partitions_table(rows: Sequence[PartitionRow], now: datetime) -> Table:
    """Build the table of a stream's partitions, with their total if there are several."""
    lines = [
        {
            "PARTITION": str(row.partition),
            "PHASE": _coloured(row.phase),
            "POD": row.pod or UNKNOWN,
            "NODE": row.node or UNKNOWN,
            "VOLUME": row.volume or UNKNOWN,
            "RESTORED FROM": row.restored_from or UNKNOWN,
            "RATE/S": count(row.records_per_second),
            "DUPLICATES": share(row.duplicates, row.consumed),
            "LAG": count(row.lag_messages),
            "WINDOW": duration(row.window_seconds),
            "LAST SNAPSHOT": _ago(now, row.last_snapshot),
            "NOTE": escape(row.note),
        }
        for row in rows
    ]
    return table(lines, total=_totals(rows) if len(rows) > 1 else None)


def snapshots_table(snapshots: Sequence[Snapshot], now: datetime, *, with_namespace: bool) -> Table:
    """Build the table of snapshots."""
    lines = [
        {
            "NAMESPACE": snapshot.namespace,
            "NAME": snapshot.name,
            "STREAM": snapshot.stream,
            "PHASE": _coloured(snapshot.phase),
            "PROVIDER": snapshot.status.provider or UNKNOWN,
            "PARTITIONS": snapshot.status.progress or UNKNOWN,
            "SIZE": size(snapshot.size),
            "KEYS": count(snapshot.keys),
            "WINDOW": duration(seconds(snapshot.window)),
            "AGE": duration((now - snapshot.created).total_seconds()),
            "NOTE": escape("; ".join(filter(None, [snapshot.why_failed, snapshot.unreachable]))),
        }
        for snapshot in snapshots
    ]
    return table(lines, without=set() if with_namespace else {"NAMESPACE"})


def print_table(console: Console, drawn: RenderableType) -> None:
    """Print a table; where the output is piped, without trailing blanks."""
    if console.is_terminal:
        console.print(drawn)
        return
    with console.capture() as captured:
        console.print(drawn)
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def as_json(value: object) -> str:
    """Write a value as JSON, indented."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def stream_json(stream: Stream) -> dict[str, Any]:
    """Return a stream as JSON."""
    return {
        "namespace": stream.namespace,
        "name": stream.name,
        "ready": _ready(stream),
        "partitions": stream.status.partitions_ready,
        "windowSeconds": seconds(stream.status.window),
        "duplicates": stream.status.duplicates,
        "lagMessages": stream.status.lag_messages,
        "created": stream.created.isoformat(),
        "state": stream_state(stream),
        "note": stream_note(stream),
    }


def view_json(view: StreamView, rows: Sequence[PartitionRow]) -> dict[str, Any]:
    """Return a stream with its partitions as JSON.

    Names are in camelCase, times in RFC 3339.
    """
    growth = view.stream.status.growth
    return {
        **stream_json(view.stream),
        "partitionsReady": view.stream.status.partitions_ready,
        "partitions": [_row_json(row) for row in rows],
        "unavailable": list(view.unavailable),
        **({"routers": routers_json(routers)} if (routers := view.stream.status.routers) else {}),
        **({"growth": growth.model_dump(mode="json", by_alias=True)} if growth else {}),
    }


def _row_json(row: PartitionRow) -> dict[str, Any]:
    return {
        to_camel(name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(row).items()
    }


def _ready(stream: Stream) -> str:
    ready = stream.condition("Ready")
    return ready.status.value if ready else "Unknown"


def _headline(stream: Stream) -> str:
    """Write the name, the topics and the state of a stream in one line."""
    ready = stream.status.partitions_ready
    counted = f", {ready} partitions ready" if ready else ""
    return f"{stream.title}: {stream.flow}, {stream_state(stream)}{counted}"


def table(
    lines: Sequence[Mapping[str, str]],
    *,
    without: set[str] | None = None,
    total: Mapping[str, str] | None = None,
) -> Table:
    """Build a table from rows of cells by column head.

    The column NOTE is left out if no row has a note.
    """
    hidden = (without or set()) | (set() if any(line["NOTE"] for line in lines) else {"NOTE"})
    shown = [head for head in lines[0] if head not in hidden]
    drawn = Table(
        box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_footer=bool(total)
    )
    for head in shown:
        drawn.add_column(
            head,
            (total or {}).get(head, ""),
            justify="left" if head in _TEXTS | _NAMES else "right",
            no_wrap=head not in _TEXTS | {"LAST SNAPSHOT"},
            overflow="fold" if head in _TEXTS else "ellipsis",
        )
    for line in lines:
        drawn.add_row(*(line[head] for head in shown))
    return drawn


def _coloured(word: str) -> str:
    colour = "green" if word in _GOOD else "red" if word in _BAD else "yellow"
    return f"[{colour}]{word}[/]"


def _ago(now: datetime, time: datetime | None) -> str:
    return f"{duration((now - time).total_seconds())} ago" if time else UNKNOWN


def _totals(rows: Sequence[PartitionRow]) -> dict[str, str]:
    duplicates = _sum([row.duplicates for row in rows])
    return {
        "PARTITION": "total",
        "RATE/S": count(_sum([row.records_per_second for row in rows])),
        "DUPLICATES": share(duplicates, _sum([row.consumed for row in rows])),
        "LAG": count(_sum([row.lag_messages for row in rows])),
    }


def _sum(numbers: Sequence[_Number | None]) -> _Number | None:
    """Return the sum, or None if a part is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(numbers) else None
