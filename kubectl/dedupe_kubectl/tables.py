"""The tables of streams and of partitions, and the same as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic.alias_generators import to_camel
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from dedupe_kubectl.look import Look
from dedupe_kubectl.objects import Stream
from dedupe_kubectl.rows import PartitionRow, StreamRow, stream_note, stream_state
from dedupe_kubectl.words import UNKNOWN, count, duration, share

_GOOD: Final = {"Running", "True"}
_Number = TypeVar("_Number", int, float)
_BAD: Final = {"Failed", "False"}


def streams_table(rows: Sequence[StreamRow], now: datetime, *, with_namespace: bool) -> Table:
    """Build the table of all streams."""
    table = _table()
    for head in (*(("NAMESPACE",) if with_namespace else ()), "NAME", "READY", "STATE"):
        table.add_column(head, no_wrap=True)
    for head in ("PARTITIONS", "WINDOW", "DUPLICATES", "LAG", "AGE"):
        table.add_column(head, justify="right", no_wrap=True)
    if any(row.note for row in rows):
        table.add_column("NOTE", overflow="fold")
    for row in rows:
        table.add_row(
            *((row.namespace,) if with_namespace else ()),
            row.name,
            _coloured(row.ready),
            row.state,
            row.partitions or UNKNOWN,
            duration(row.window_seconds),
            count(row.duplicates),
            count(row.lag_messages),
            duration((now - row.created).total_seconds()),
            *((escape(row.note),) if any(each.note for each in rows) else ()),
        )
    return table


def stream_view(look: Look, rows: Sequence[PartitionRow], now: datetime) -> RenderableType:
    """Build all that is shown of one stream."""
    stream = look.stream
    parts: list[RenderableType] = [escape(headline(stream))]
    if note := stream_note(stream):
        parts.append(f"[yellow]{escape(note)}[/]")
    parts += [f"[dim]{escape(line)}[/]" for line in look.untold]
    if rows:
        parts.append(partitions_table(rows, now))
    return Group(*parts)


def headline(stream: Stream) -> str:
    """Say in one line which stream it is, and how it is."""
    ready = stream.status.partitions_ready
    counted = f", {ready} partitions ready" if ready else ""
    return f"{stream.title}: {stream.flow}, {stream_state(stream)}{counted}"


def partitions_table(rows: Sequence[PartitionRow], now: datetime) -> Table:
    """Build the table of a stream's partitions, with their total if there are several."""
    table = _table()
    table.show_footer = len(rows) > 1
    total = _totals(rows)
    table.add_column("PARTITION", "total", justify="right", no_wrap=True)
    for head in ("PHASE", "POD", "NODE", "VOLUME", "RESTORED FROM"):
        table.add_column(head, overflow="fold")
    for head in ("RATE/S", "DUPLICATES", "LAG"):
        table.add_column(head, total[head], justify="right", no_wrap=True)
    for head in ("WINDOW", "LAST SNAPSHOT"):
        table.add_column(head, justify="right", no_wrap=head == "WINDOW")
    if any(row.note for row in rows):
        table.add_column("NOTE", overflow="fold")
    for row in rows:
        snapshot = row.last_snapshot
        table.add_row(
            str(row.partition),
            _coloured(row.phase),
            row.pod or UNKNOWN,
            row.node or UNKNOWN,
            row.volume or UNKNOWN,
            row.restored_from or UNKNOWN,
            count(row.records_per_second),
            share(row.duplicates, row.consumed),
            count(row.lag_messages),
            duration(row.window_seconds),
            f"{duration((now - snapshot).total_seconds())} ago" if snapshot else UNKNOWN,
            *((escape(row.note),) if any(each.note for each in rows) else ()),
        )
    return table


def as_json(value: object) -> str:
    """Write rows as JSON: names in camelCase, times in RFC 3339."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def stream_json(row: StreamRow) -> dict[str, Any]:
    """One stream for a program."""
    return _camel(asdict(row))


def look_json(look: Look, row: StreamRow, partitions: Sequence[PartitionRow]) -> dict[str, Any]:
    """One stream with its partitions, for a program."""
    return {
        **_camel(asdict(row)),
        "partitionsReady": look.stream.status.partitions_ready,
        "partitions": [_camel(asdict(each)) for each in partitions],
        "untold": list(look.untold),
    }


def _camel(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        to_camel(name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in fields.items()
    }


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")


def _coloured(word: str) -> str:
    colour = "green" if word in _GOOD else "red" if word in _BAD else "yellow"
    return f"[{colour}]{word}[/]"


def _totals(rows: Sequence[PartitionRow]) -> dict[str, str]:
    """Sums that are unknown as soon as one of their parts is."""
    rates = [row.records_per_second for row in rows]
    duplicates = [row.duplicates for row in rows]
    consumed = [row.consumed for row in rows]
    lags = [row.lag_messages for row in rows]
    return {
        "RATE/S": count(_sum(rates)),
        "DUPLICATES": share(_sum(duplicates), _sum(consumed)),
        "LAG": count(_sum(lags)),
    }


def _sum(numbers: Sequence[_Number | None]) -> _Number | None:
    known = [number for number in numbers if number is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(numbers) else None
