"""The tables of streams and of partitions, and the same as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic.alias_generators import to_camel
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from dedupe_kubectl.commands.snapshots import Snapshot
from dedupe_kubectl.objects import Stream
from dedupe_kubectl.rows import PartitionRow, seconds, stream_note, stream_state
from dedupe_kubectl.stream_view import Look
from dedupe_kubectl.words import UNKNOWN, count, duration, share, size

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
    """Build the table of all streams."""
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


def stream_view(look: Look, rows: Sequence[PartitionRow], now: datetime) -> RenderableType:
    """Build all that is shown of one stream."""
    parts: list[RenderableType] = [escape(_headline(look.stream))]
    if note := stream_note(look.stream):
        parts.append(f"[yellow]{escape(note)}[/]")
    parts += [f"[dim]{escape(line)}[/]" for line in look.untold]
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


def snapshots_table(snapshots: Sequence[Snapshot], now: datetime) -> Table:
    """Build the table of snapshots."""
    return table(
        [
            {
                "NAME": one.name,
                "STREAM": one.stream,
                "PHASE": _coloured(one.phase),
                "PROVIDER": one.status.provider or UNKNOWN,
                "PARTITIONS": one.status.progress or UNKNOWN,
                "SIZE": size(one.size),
                "KEYS": count(one.keys),
                "WINDOW": duration(seconds(one.window)),
                "AGE": duration((now - one.created).total_seconds()),
                "NOTE": escape(one.why_failed),
            }
            for one in snapshots
        ]
    )


def print_table(console: Console, drawn: RenderableType) -> None:
    """Print it, without the blanks that fill the last column where a program reads it."""
    if console.is_terminal:
        console.print(drawn)
        return
    with console.capture() as captured:
        console.print(drawn)
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def as_json(value: object) -> str:
    """Write rows as JSON: names in camelCase, times in RFC 3339."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def stream_json(stream: Stream) -> dict[str, Any]:
    """One stream for a program."""
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


def look_json(look: Look, rows: Sequence[PartitionRow]) -> dict[str, Any]:
    """One stream with its partitions, for a program."""
    return {
        **stream_json(look.stream),
        "partitionsReady": look.stream.status.partitions_ready,
        "partitions": [_row_json(row) for row in rows],
        "untold": list(look.untold),
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
    """Say in one line which stream it is, and how it is."""
    ready = stream.status.partitions_ready
    counted = f", {ready} partitions ready" if ready else ""
    return f"{stream.title}: {stream.flow}, {stream_state(stream)}{counted}"


def table(
    lines: Sequence[Mapping[str, str]],
    *,
    without: set[str] | None = None,
    total: Mapping[str, str] | None = None,
) -> Table:
    """Build a table of cells by the heads of their columns; notes only if there are any."""
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
    """The sum, unknown as soon as one of its parts is."""
    known = [number for number in numbers if number is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(numbers) else None
