"""Assemble a stream's status; decide which changes need an event or a write.

The reconciler and the status writer call it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dedupe_crds.status import health
from dedupe_crds.status.stream import (
    Condition,
    PartitionStatus,
    RoutersStatus,
    StreamStatus,
)
from dedupe_crds.status.worker import WorkerStatus

NUMBERS = ("window", "duplicates", "lag_messages")
"""Of a stream and of each partition."""
STREAM_NUMBERS = (*NUMBERS, "duplicates_share")
# Of each condition with events: its status that is no reason for a warning.
_GOOD = {
    "Ready": "True",
    "Degraded": "False",
    "WindowHealthy": "True",
    "GuaranteesMet": "True",
    "InputPartitionsAdded": "False",
    "InputPartitioning": "True",
    "SnapshotsHealthy": "True",
    "ReconciliationPaused": "False",
}
_UNREMARKABLE = {
    "PartitionsNotReady",
    "RoutersNotReady",
    "NoWorkerAnswers",
    "NoSnapshotYet",
    "NotSampled",
    "ReconciliationPaused",
    "Suspended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """An event about a stream.

    One that is `ongoing` is in each pass while its cause lasts, and written in the first.
    """

    reason: str
    message: str
    warning: bool = False
    ongoing: bool = False


def assemble(
    *,
    generation: int,
    conditions: list[Condition],
    partitions: list[PartitionStatus],
    routers: RoutersStatus | None = None,
    workers: Iterable[WorkerStatus] = (),
) -> StreamStatus:
    """Return a stream's whole status from its parts."""
    windows = [each.window for each in partitions if each.window is not None]
    duplicates = [each.duplicates for each in partitions if each.duplicates is not None]
    places = (*partitions, *(routers.inputs if routers else ()))
    lags = [each.lag_messages for each in places if each.lag_messages is not None]
    ready = sum(each.ready for each in partitions)
    counts = [each.counts for each in workers]
    consumed = sum(each.consumed for each in counts)
    # Of what the workers say, not of the rounded numbers above; in whole percents, which seldom change.
    share = f"{sum(each.duplicates for each in counts) / consumed:.0%}" if consumed else None
    return StreamStatus(
        observed_generation=generation,
        conditions=conditions,
        reason=health.reason(conditions),
        partitions_ready=f"{ready}/{len(partitions)}" if partitions else None,
        partitions=partitions,
        routers=routers,
        window=min(windows) if windows else None,
        duplicates=sum(duplicates) if duplicates else None,
        duplicates_share=share,
        lag_messages=sum(lags) if lags else None,
    )


def differs_only_in_numbers(old: StreamStatus, new: StreamStatus) -> bool:
    """Return whether only numbers changed that change all the time.

    A number that was unknown before counts as a change.
    """
    if _without_numbers(old) != _without_numbers(new):
        return False
    return all(before or not now for before, now in zip(_known(old), _known(new), strict=True))


def _without_numbers(status: StreamStatus) -> StreamStatus:
    moving = dict.fromkeys(NUMBERS)
    partitions = [each.model_copy(update=moving) for each in status.partitions]
    lagless = {"lag_messages": None}
    added = [each.model_copy(update=lagless) for each in status.added_partitions or ()]
    routers = _still(status.routers) if status.routers else None
    still = {"partitions": partitions, "added_partitions": added, "routers": routers}
    return status.model_copy(update=dict.fromkeys(STREAM_NUMBERS) | still)


def _still(routers: RoutersStatus) -> RoutersStatus:
    """Return the routers' status without numbers that change all the time."""
    inputs = [each.model_copy(update={"lag_messages": None}) for each in routers.inputs]
    return routers.model_copy(update={"inputs": inputs, "held_records": None, "held_bytes": None})


def _known(status: StreamStatus) -> list[bool]:
    """Return which numbers are known, of the stream, each partition and the routers."""
    parts = (status, *status.partitions)
    known = [getattr(part, number) is not None for part in parts for number in NUMBERS]
    if routers := status.routers:
        lags = [each.lag_messages is not None for each in routers.inputs]
        known += [*lags, routers.held_records is not None, routers.held_bytes is not None]
    return known


def condition_events(old: Sequence[Condition], new: Sequence[Condition]) -> list[StreamEvent]:
    """Return the events that report how conditions changed."""
    before = {each.type: (each.status, each.reason) for each in old}
    changed = (each for each in new if each.type in _GOOD and _is_news(before.get(each.type), each))
    events: dict[str, StreamEvent] = {}
    for each in changed:
        bad = each.status != _GOOD[each.type] and each.reason not in _UNREMARKABLE
        event = StreamEvent(reason=each.reason, message=each.message, warning=bad)
        # A cause that shows in several conditions gets one event.
        events.setdefault(each.reason, event)
    return list(events.values())


def _is_news(before: tuple[str, str] | None, each: Condition) -> bool:
    if before == (each.status, each.reason):
        return False
    if each.reason in _UNREMARKABLE:
        return each.reason == "Suspended"
    if each.status != _GOOD[each.type]:
        return True
    # A good state is worth an event only after a bad one.
    return before is not None and before[0] != "Unknown"
