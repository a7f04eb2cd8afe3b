"""What the table and the plain lines say of each partition. Values in, values out."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from dedupe_crds.quantity import format_duration
from dedupe_crds.status.worker import Phase, WorkerStatus
from dedupe_local.run.worker_process import WorkerView

_RATE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One partition. `records_per_second` is of the last seconds; None is not known now.

    `to_reconcile` is how many records of the output are to be read before it can begin.
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
    note: str

    @property
    def state(self) -> tuple[str, str, int]:
        """What is worth a line of its own when it changes."""
        return self.phase, self.note, self.restarts


class Rates:
    """How fast each partition is read, over the last 5 s."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def observe(self, views: Sequence[WorkerView], now: float) -> list[float]:
        """Return the records per second of each partition at the time `now`, in seconds."""
        return [self._rate(view.partition, view.consumed, now) for view in views]

    def _rate(self, partition: int, consumed: int, now: float) -> float:
        seen = self._seen.setdefault(partition, deque())
        seen.append((now, consumed))
        while now - seen[0][0] > _RATE_SECONDS:
            seen.popleft()
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first) if last > first else 0.0


def row(view: WorkerView, records_per_second: float) -> Row:
    """Say how a partition is."""
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
        note=view.trouble or (_note(status) if status else ""),
    )


def changes(before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    """Return one line for each partition whose state is another than before."""
    known = {row.partition: row.state for row in before}
    return [
        f"partition {row.partition}: {row.phase}{f' ({row.note})' if row.note else ''}"
        for row in after
        if known.get(row.partition) != row.state
    ]


def summary(rows: Sequence[Row]) -> str:
    """Return one line about all partitions."""
    running = sum(row.phase == Phase.RUNNING for row in rows)
    to_reconcile = sum(row.to_reconcile for row in rows)
    return (
        f"{running} of {len(rows)} running, "
        f"{sum(row.records_per_second for row in rows):,.0f} records/s, "
        f"{sum(row.consumed for row in rows):,} read, "
        f"{total_duplicates(rows)} duplicates, lag {total_lag(rows)}, "
        f"{sum(row.restarts for row in rows)} restarts"
        f"{f', {to_reconcile:,} to reconcile' if to_reconcile else ''}"
    )


def total_duplicates(rows: Sequence[Row]) -> str:
    """Return the duplicates found, and their share of what was read."""
    return share(sum(row.duplicates for row in rows), sum(row.consumed for row in rows))


def total_lag(rows: Sequence[Row]) -> str:
    """Return the messages to come in all partitions, unknown if one of them is."""
    lags = [row.lag_messages for row in rows]
    return "?" if None in lags else f"{sum(filter(None, lags)):,}"


def share(part: int, whole: int) -> str:
    """Write a count and its share.

    >>> share(1234, 24680)
    '1,234 (5.0 %)'
    """
    return f"{part:,} ({part / whole:.1%})".replace("%", " %") if whole else f"{part:,}"


def short(seconds: float | None) -> str:
    """Write a time in its two largest units.

    >>> short(4 * 86400 + 3 * 3600 + 5)
    '4d3h'
    """
    if seconds is None:
        return "-"
    finest = 86400 if seconds > 50 * 86400 else 3600 if seconds > 86400 else 60
    whole = int(seconds // finest * finest) if seconds >= 3600 else int(seconds)
    return format_duration(timedelta(seconds=whole))


def _phase(view: WorkerView) -> str:
    if view.status is not None:
        return view.status.phase
    return Phase.STARTING if view.pid is not None else "Waiting"


def _to_reconcile(status: WorkerStatus) -> int:
    if status.phase is Phase.RECONCILING and status.reconcile is not None:
        return status.reconcile.remaining
    return 0


def _note(status: WorkerStatus) -> str:
    if status.reason:
        return f"{status.reason}: {status.message}" if status.message else status.reason
    if not status.window.healthy:
        return "the window is shorter than alertBelow"
    return ""
