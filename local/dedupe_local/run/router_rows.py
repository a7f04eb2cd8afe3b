"""Rows and lines about routers, for the live table and the plain lines.

`live_table` shows them. Pure: no clock, no I/O.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dedupe_crds.formatting import count, size
from dedupe_crds.status.router import RepartitionTopicStatus, RouterPhase, RouterStatus
from dedupe_local.run.router_process import RouterView

_MOST_INPUTS: Final = 10


@dataclass(frozen=True, kw_only=True)
class RouterRow:
    """One router; None means that a value is not known now.

    `partitions` is the number of input partitions that are assigned to it, `lag_messages` their lag.
    """

    router: int
    phase: str
    records_per_second: float
    partitions: int
    lag_messages: int | None
    restarts: int
    details: str

    @property
    def state(self) -> tuple[str, str, int]:
        """Return the fields whose change gets a plain line."""
        return self.phase, self.details, self.restarts


def router_row(view: RouterView, records_per_second: float) -> RouterRow:
    """Build a router's row."""
    status = view.status
    inputs = status.inputs if status else []
    starting = RouterPhase.STARTING if view.pid is not None else "Waiting"
    return RouterRow(
        router=view.router,
        phase=status.phase if status else starting,
        records_per_second=records_per_second,
        partitions=sum(len(each.partitions) for each in inputs),
        lag_messages=_total([each.lag_messages for each in inputs]) if status else None,
        restarts=view.restarts,
        details=view.last_exit or (_details(status) if status else ""),
    )


def router_changes(before: Sequence[RouterRow], after: Sequence[RouterRow]) -> list[str]:
    """Return a line for each router whose state has changed."""
    known = {row.router: row.state for row in before}
    return [
        f"router {row.router}: {row.phase}{f' ({row.details})' if row.details else ''}"
        for row in after
        if known.get(row.router) != row.state
    ]


def stage_lines(views: Sequence[RouterView]) -> list[str]:
    """Return a line with the lag of each input, and one about the repartition topic.

    Of many inputs those with the largest lag have a line.
    """
    lags = _lags(views)
    shown = sorted(lags, key=lambda topic: _or_infinite(lags[topic]), reverse=True)[:_MOST_INPUTS]
    lines = [f"input {topic}: lag {count(lags[topic])}" for topic in sorted(shown)]
    if rest := [lag for topic, lag in lags.items() if topic not in shown]:
        lines.append(f"{len(rest)} more inputs: lag {_shown_total(rest)}")
    held = _held(views)
    if held is not None:
        epoch = max(view.status.epoch for view in views if view.status)
        lines.append(
            f"{held.topic}: {held.partitions} partitions, epoch {epoch}, holds {_amount(held)}"
        )
    return lines


def router_summary(rows: Sequence[RouterRow], views: Sequence[RouterView]) -> str:
    """Return what the summary of a run says about its routers."""
    running = sum(row.phase == RouterPhase.RUNNING for row in rows)
    held = _held(views)
    return (
        f"routers {running} of {len(rows)}, "
        f"input lag {_shown_total([row.lag_messages for row in rows])}"
        f"{f', held {_amount(held)}' if held else ''}"
    )


def _lags(views: Sequence[RouterView]) -> dict[str, int | None]:
    """Return the lag of each input over all routers; None if a part is not known."""
    parts: defaultdict[str, list[int | None]] = defaultdict(list)
    for view in views:
        for each in view.status.inputs if view.status else []:
            parts[each.topic].append(each.lag_messages)
    return {topic: _total(lags) for topic, lags in sorted(parts.items())}


def _amount(held: RepartitionTopicStatus) -> str:
    about = f" (about {size(held.held_bytes)})" if held.held_bytes else ""
    return f"{count(held.held_records)} records{about}"


def _held(views: Sequence[RouterView]) -> RepartitionTopicStatus | None:
    """Return the topic as the router describes it that knows the most."""
    found = [view.status.output for view in views if view.status and view.status.output]
    return max(found, key=lambda each: each.held_bytes or 0, default=None)


def _total(lags: Sequence[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def _shown_total(lags: Sequence[int | None]) -> str:
    total = _total(lags)
    return "?" if total is None else count(total)


def _or_infinite(lag: int | None) -> float:
    return math.inf if lag is None else lag


def _details(status: RouterStatus) -> str:
    if status.reason:
        return f"{status.reason}: {status.message}" if status.message else status.reason
    return "; ".join(status.warnings)
