"""`kubectl dedupe top`: what streams, or the partitions of one, do and hold now."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, TypeVar

import click
from pydantic.alias_generators import to_camel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedupe_crds.formatting import UNKNOWN, count, duration, share, size
from dedupe_kubectl.api import Api
from dedupe_kubectl.options import OUTPUT, current_clock, on_cluster, terminal
from dedupe_kubectl.stream_view import StreamView, fetch_view, fetch_views
from dedupe_kubectl.table_rows import PartitionRow, Rates, partition_rows
from dedupe_kubectl.tables import as_json, print_table, table
from dedupe_kubectl.waiting import Clock

_RATE_SECONDS: Final = 1.0
_Number = TypeVar("_Number", int, float)


@click.command("top")
@click.argument("stream", required=False)
@on_cluster
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the streams of all namespaces.")
@click.option(
    "--sort-by", type=click.Choice(["rate", "lag", "store"]), help="Show the largest first."
)
@OUTPUT
def top_command(
    *,
    api: Api,
    namespace: str,
    stream: str | None,
    all_namespaces: bool,
    sort_by: str | None,
    output: str | None,
) -> None:
    """Show the load of all streams, or of one stream by partition.

    The rate is in messages per second. Records and duplicates are counted since the start of the workers. Lag is an
    upper bound of the messages still to process. The window is the age of the oldest id in the store, of a stream the
    shortest. The store is the disk space of the ids.
    """
    if stream and all_namespaces:
        raise click.UsageError("a stream is in one namespace: use -n instead of -A")
    wanted = None if all_namespaces else namespace
    views, rates = _observe(api, wanted, stream, current_clock())
    rows = _rows(views, rates, by_partition=stream is not None)
    if sort_by:
        rows.sort(key=lambda row: _FIGURES[sort_by](row) or 0, reverse=True)
    show(terminal(), views, rows, json=output == "json", namespace=wanted)


@dataclass(frozen=True, kw_only=True)
class TopRow:
    """The load of a stream, or of a partition of it.

    Counts and rates are those of the workers that answer: `answering` of `workers`.
    """

    namespace: str
    stream: str
    partition: int | None
    workers: int
    answering: int
    records_per_second: float | None
    records: int | None
    duplicates: int | None
    lag_messages: int | None
    window_seconds: float | None
    store_bytes: int | None


_FIGURES: Final[dict[str, Callable[[TopRow], float | None]]] = {
    "rate": lambda row: row.records_per_second,
    "lag": lambda row: row.lag_messages,
    "store": lambda row: row.store_bytes,
}


def show(
    console: Console,
    views: Sequence[StreamView],
    rows: Sequence[TopRow],
    *,
    json: bool,
    namespace: str | None,
) -> None:
    """Print the rows, as a table or as JSON."""
    if json:
        items = [{to_camel(name): value for name, value in asdict(row).items()} for row in rows]
        console.out(as_json({"items": items}), highlight=False)
        return
    for line in dict.fromkeys(line for view in views for line in view.unavailable):
        print_table(console, f"[dim]{escape(line)}[/]")
    if rows:
        print_table(console, top_table(rows, with_namespace=namespace is None))
        return
    where = f"namespace {escape(namespace)}" if namespace else "any namespace"
    print_table(
        console, f"No streams in {where}; `kubectl dedupe top -A` shows those of all namespaces."
    )


def top_table(rows: Sequence[TopRow], *, with_namespace: bool) -> Table:
    """Build the table of the rows, with their total if there are several."""
    hidden = set() if with_namespace else {"NAMESPACE"}
    hidden |= {"PARTITION"} if rows[0].partition is None else {"STREAM", "WORKERS"}
    total = _line(_sum_of(rows)) | {"NAMESPACE": "total", "STREAM": "total", "PARTITION": "total"}
    if with_namespace:
        total["STREAM"] = ""
    return table(
        [_line(row) for row in rows], without=hidden, total=total if len(rows) > 1 else None
    )


def _line(row: TopRow) -> dict[str, str]:
    return {
        "NAMESPACE": row.namespace,
        "STREAM": row.stream,
        "PARTITION": UNKNOWN if row.partition is None else str(row.partition),
        "WORKERS": f"{row.answering}/{row.workers}",
        "RATE/S": count(row.records_per_second),
        "RECORDS": count(row.records),
        "DUPLICATES": share(row.duplicates, row.records),
        "LAG": count(row.lag_messages),
        "WINDOW": duration(row.window_seconds),
        "STORE": size(row.store_bytes),
        "NOTE": "",
    }


def _observe(
    api: Api, namespace: str | None, stream: str | None, clock: Clock
) -> tuple[list[StreamView], list[dict[int, float]]]:
    """Fetch the streams, twice: the rates of their partitions need two moments."""

    def fetch() -> list[StreamView]:
        if stream:
            return [fetch_view(api, namespace or "default", stream)]
        return fetch_views(api, namespace)

    observed: dict[str, Rates] = {}

    def rates_of(views: Iterable[StreamView]) -> list[dict[int, float]]:
        now = clock.monotonic()
        return [
            observed.setdefault(view.stream.title, Rates()).observe(view.workers, now)
            for view in views
        ]

    views = fetch()
    rates = rates_of(views)
    if any(view.workers for view in views):
        clock.sleep(_RATE_SECONDS)
        views = fetch()
        rates = rates_of(views)
    return views, rates


def _rows(
    views: Sequence[StreamView], rates: Sequence[dict[int, float]], *, by_partition: bool
) -> list[TopRow]:
    found = []
    for view, known in zip(views, rates, strict=True):
        rows = [_partition(view, row) for row in partition_rows(view, known)]
        found += rows if by_partition else [_stream(view, rows)]
    return found


def _partition(view: StreamView, row: PartitionRow) -> TopRow:
    return TopRow(
        namespace=view.stream.namespace,
        stream=view.stream.name,
        partition=row.partition,
        workers=1,
        answering=int(row.live),
        records_per_second=row.records_per_second,
        records=row.consumed,
        duplicates=row.duplicates,
        lag_messages=row.lag_messages,
        window_seconds=row.window_seconds,
        store_bytes=row.store_bytes,
    )


def _stream(view: StreamView, rows: Sequence[TopRow]) -> TopRow:
    """Return the load of a stream; its lag has what its routers have not routed yet."""
    routers = view.stream.status.routers
    unrouted = [each.lag_messages for each in routers.inputs] if routers else []
    whole = _sum_of(rows)
    return replace(
        whole,
        namespace=view.stream.namespace,
        stream=view.stream.name,
        lag_messages=_sum([whole.lag_messages, *unrouted]),
    )


def _sum(numbers: Sequence[_Number | None]) -> _Number | None:
    """Return the sum of those that are known, None if none is."""
    known = [number for number in numbers if number is not None]
    return sum(known[1:], known[0]) if known else None


def _sum_of(rows: Sequence[TopRow]) -> TopRow:
    """Return the load of all rows together; the window is the shortest."""
    windows = [row.window_seconds for row in rows if row.window_seconds is not None]
    # A worker that does not answer has no number of records, so its duplicates would raise the share.
    counted = [row for row in rows if row.records is not None]
    return TopRow(
        namespace="",
        stream="",
        partition=None,
        workers=sum(row.workers for row in rows),
        answering=sum(row.answering for row in rows),
        records_per_second=_sum([row.records_per_second for row in rows]),
        records=_sum([row.records for row in counted]),
        duplicates=_sum([row.duplicates for row in counted or rows]),
        lag_messages=_sum([row.lag_messages for row in rows]),
        window_seconds=min(windows, default=None),
        store_bytes=_sum([row.store_bytes for row in rows]),
    )
