"""Rows of the live table and of the plain lines, one per partition.

`live_table` shows them. Pure: no clock, no I/O.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dedupe_crds.formatting import share
from dedupe_crds.status.worker import Counts, DegradedReason, Phase, WorkerStatus
from dedupe_local.run.worker_process import WorkerView

_RATE_SECONDS = 5.0
_MISSING_IDS = "MissingIds"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One partition; None means that a value is not known now.

    `records_per_second` is the average over the last 5 s. `to_reconcile` counts the records of the output that the
    worker must read before it can begin; `missing_ids` counts records without a usable id by why.
    """

    partition: int
    phase: str
    records_per_second: float
    consumed: int
    duplicates: int
    lag_messages: int | None
    window_seconds: float | None
    to_reconcile: int
    restarts: int
    details: str
    missing_ids: Mapping[str, int] = field(default_factory=dict)

    @property
    def state(self) -> tuple[str, str, int]:
        """Return the fields whose change gets a plain line."""
        return self.phase, self.details, self.restarts


class Rates:
    """The records per second of each partition or router, over the last 5 s."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def observe(self, counted: Mapping[int, int], now: float) -> list[float]:
        """Return the records per second at the time `now` (seconds).

        `counted` has the records of each number until now.
        """
        return [self._rate(number, records, now) for number, records in counted.items()]

    def _rate(self, partition: int, consumed: int, now: float) -> float:
        seen = self._seen.setdefault(partition, deque())
        seen.append((now, consumed))
        while now - seen[0][0] > _RATE_SECONDS:
            seen.popleft()
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first) if last > first else 0.0


def row(view: WorkerView, records_per_second: float) -> Row:
    """Build a partition's row."""
    status = view.status
    return Row(
        partition=view.partition,
        phase=_phase(view),
        records_per_second=records_per_second,
        consumed=view.consumed,
        duplicates=view.duplicates,
        lag_messages=status.input.lag_messages if status else None,
        window_seconds=status.window.seconds if status else None,
        to_reconcile=_to_reconcile(status) if status else 0,
        restarts=view.restarts,
        details=view.last_exit or (_details(status) if status else ""),
        missing_ids=view.missing_ids,
    )


def added_row(partition: int, lag_messages: int | None) -> Row:
    """Build the row of a partition that was added to the input, and has no worker."""
    return Row(
        partition=partition,
        phase="Added",
        records_per_second=0.0,
        consumed=0,
        duplicates=0,
        lag_messages=lag_messages,
        window_seconds=None,
        to_reconcile=0,
        restarts=0,
        details="it waits, as spec.input.addedPartitions says",
    )


def changes(before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    """Return a line for each partition whose state has changed."""
    known = {row.partition: row.state for row in before}
    return [
        f"partition {row.partition}: {row.phase}{f' ({row.details})' if row.details else ''}"
        for row in after
        if known.get(row.partition) != row.state
    ]


def summary(rows: Sequence[Row]) -> str:
    """Return a one-line summary of all partitions."""
    running = sum(row.phase == Phase.RUNNING for row in rows)
    to_reconcile = sum(row.to_reconcile for row in rows)
    return (
        f"{running} of {len(rows)} running, "
        f"{sum(row.records_per_second for row in rows):,.0f} records/s, "
        f"{sum(row.consumed for row in rows):,} read, "
        f"{total_duplicates(rows)} duplicates, lag {total_lag(rows)}, "
        f"{sum(row.restarts for row in rows)} restarts"
        f"{f', {without}' if (without := without_id([row.missing_ids for row in rows])) else ''}"
        f"{f', {to_reconcile:,} to reconcile' if to_reconcile else ''}"
    )


def without_id(counted: Iterable[Mapping[str, int]]) -> str:
    """Return how many records have no usable id, by why; empty if each has one.

    >>> without_id([{"NotJson": 2, "WrongType": 1}, {}])
    'without an id: 3 (NotJson 2, WrongType 1)'
    """
    total: Counter[str] = Counter()
    for each in counted:
        total.update(each)
    if not total.total():
        return ""
    kinds = ", ".join(f"{why} {records:,}" for why, records in total.most_common())
    return f"without an id: {total.total():,} ({kinds})"


def total_duplicates(rows: Sequence[Row]) -> str:
    """Return the number of duplicates, and their share of the records read."""
    return share(sum(row.duplicates for row in rows), sum(row.consumed for row in rows))


def total_lag(rows: Sequence[Row]) -> str:
    """Return the lag of all partitions; `?` if that of a partition is unknown."""
    lags = [row.lag_messages for row in rows]
    return "?" if None in lags else f"{sum(filter(None, lags)):,}"


def _phase(view: WorkerView) -> str:
    if view.status is not None:
        return view.status.phase
    return Phase.STARTING if view.pid is not None else "Waiting"


def _to_reconcile(status: WorkerStatus) -> int:
    if status.phase is Phase.RECONCILING and status.reconcile is not None:
        return status.reconcile.remaining
    return 0


def _details(status: WorkerStatus) -> str:
    if status.reason:
        return f"{status.reason}: {status.message}" if status.message else status.reason
    return "; ".join(_degraded(each, status.counts) for each in status.degraded)


def _degraded(found: DegradedReason, counts: Counts) -> str:
    """Return the reason, and its message if no record at all has an id."""
    none_has_one = found.reason == _MISSING_IDS and 0 < counts.consumed == counts.without_id
    return f"{found.reason}: {found.message}" if none_has_one else found.reason
