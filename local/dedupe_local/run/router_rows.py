"""Rows and lines about routers, for the live table and the plain lines.

`live_table` shows them. Pure: no clock, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dedupe_crds.formatting import count, ranges, size
from dedupe_crds.status.router import RepartitionTopicStatus, RouterInput, RouterPhase
from dedupe_local.run.router_process import RouterView


@dataclass(frozen=True, kw_only=True)
class RouterRow:
    """One router; `routed` counts records since the start of the run."""

    router: int
    phase: str
    records_per_second: float
    routed: int
    inputs: str
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
    problem = f"{status.reason}: {status.message}" if status and status.reason else ""
    return RouterRow(
        router=view.router,
        phase=status.phase if status else starting,
        records_per_second=records_per_second,
        routed=view.routed,
        inputs="; ".join(f"{each.topic} {ranges(each.partitions)}" for each in inputs),
        lag_messages=_total(inputs) if status else None,
        restarts=view.restarts,
        details=view.last_exit or problem,
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
    """Return a line with the lag of each input, and one about the repartition topic."""
    lags: dict[str, int | None] = {}
    for view in views:
        for each in view.status.inputs if view.status else []:
            lags[each.topic] = _sum(lags.get(each.topic, 0), each.lag_messages)
    held = _held(views)
    lines = [f"input {topic}: lag {count(lag)}" for topic, lag in sorted(lags.items())]
    if held is not None:
        epoch = max(view.status.epoch for view in views if view.status)
        lines.append(
            f"{held.topic}: {held.partitions} partitions, epoch {epoch}, holds {count(held.held_records)} records"
            f"{f' (about {size(held.held_bytes)})' if held.held_bytes else ''}"
        )
    return lines


def router_summary(rows: Sequence[RouterRow]) -> str:
    """Return a one-line summary of all routers."""
    running = sum(row.phase == RouterPhase.RUNNING for row in rows)
    lags = [row.lag_messages for row in rows]
    lag = "?" if None in lags else f"{sum(filter(None, lags)):,}"
    return (
        f"{running} of {len(rows)} routers running, "
        f"{sum(row.records_per_second for row in rows):,.0f} records/s, "
        f"{sum(row.routed for row in rows):,} routed, lag {lag}"
    )


def _held(views: Sequence[RouterView]) -> RepartitionTopicStatus | None:
    """Return the topic as the router describes it that knows the most."""
    found = [view.status.output for view in views if view.status and view.status.output]
    return max(found, key=lambda each: each.held_bytes or 0, default=None)


def _total(inputs: Sequence[RouterInput]) -> int | None:
    total: int | None = 0
    for each in inputs:
        total = _sum(total, each.lag_messages)
    return total


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
