"""The status of a stream, and which of its changes are worth an event or a write."""

from collections.abc import Sequence
from dataclasses import dataclass

from dedupe_crds.status.stream import Condition, PartitionStatus, StreamStatus

_FIGURES = ("window", "duplicates", "lag_messages")
_TOLD = ("Ready", "Degraded", "WindowHealthy", "SnapshotsHealthy", "ReconciliationPaused")
# What each of these conditions is when there is nothing to warn of.
_GOOD = {
    "Ready": "True",
    "Degraded": "False",
    "WindowHealthy": "True",
    "SnapshotsHealthy": "True",
    "ReconciliationPaused": "False",
}
_UNREMARKABLE = {"PartitionsNotReady", "NoWorkerAnswers", "NoSnapshotYet", "Suspended"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An event about a stream."""

    reason: str
    message: str
    warning: bool = False


def assemble(
    *, generation: int, conditions: list[Condition], partitions: list[PartitionStatus]
) -> StreamStatus:
    """A stream's whole status from its parts."""
    windows = [one.window for one in partitions if one.window is not None]
    duplicates = [one.duplicates for one in partitions if one.duplicates is not None]
    lags = [one.lag_messages for one in partitions if one.lag_messages is not None]
    ready = sum(one.ready for one in partitions)
    return StreamStatus(
        observed_generation=generation,
        conditions=conditions,
        partitions_ready=f"{ready}/{len(partitions)}" if partitions else None,
        partitions=partitions,
        window=min(windows) if windows else None,
        duplicates=sum(duplicates) if duplicates else None,
        lag_messages=sum(lags) if lags else None,
    )


def differs_in_figures_only(old: StreamStatus, new: StreamStatus) -> bool:
    """Whether nothing changed but what changes all the time. The first figure of its kind is news."""
    if _without_figures(old) != _without_figures(new):
        return False
    return all(before or not now for before, now in zip(_known(old), _known(new), strict=True))


def _without_figures(status: StreamStatus) -> StreamStatus:
    moving = dict.fromkeys(_FIGURES)
    partitions = [one.model_copy(update=moving) for one in status.partitions]
    return status.model_copy(update={**moving, "partitions": partitions})


def _known(status: StreamStatus) -> list[bool]:
    """Which figures there are, of the stream and of each partition."""
    parts = (status, *status.partitions)
    return [getattr(part, figure) is not None for part in parts for figure in _FIGURES]


def notices(old: Sequence[Condition], new: Sequence[Condition]) -> list[Notice]:
    """The events that tell how conditions changed."""
    before = {one.type: (one.status, one.reason) for one in old}
    changed = (one for one in new if one.type in _TOLD and _is_news(before.get(one.type), one))
    told: dict[str, Notice] = {}
    for one in changed:
        bad = one.status != _GOOD[one.type] and one.reason not in _UNREMARKABLE
        notice = Notice(reason=one.reason, message=one.message, warning=bad)
        # A cause that shows in several conditions is told once.
        told.setdefault(one.reason, notice)
    return list(told.values())


def _is_news(before: tuple[str, str] | None, one: Condition) -> bool:
    if before == (one.status, one.reason):
        return False
    if one.reason in _UNREMARKABLE:
        return one.reason == "Suspended"
    if one.status != _GOOD[one.type]:
        return True
    # That all is well is worth telling after it was not.
    return before is not None and before[0] != "Unknown"
