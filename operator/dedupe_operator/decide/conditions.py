"""A stream's health, as conditions with stable reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dedupe_crds.formatting import ranges
from dedupe_crds.status.stream import Condition, ConditionStatus, PartitionStatus
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.snapshot_policy import Verdict

_SHOWN_PROBLEMS: Final = 5
_LONGEST_MESSAGE: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What conditions are judged by.

    `problems` come with the gravest first. `waiting` are partitions that are not yet as wanted,
    `unsettled` those whose workers are on their way. `unhealthy_windows` is None while no worker tells, `snapshots`
    where none are wanted.
    """

    partitions: Sequence[PartitionStatus]
    problems: Sequence[Problem]
    waiting: Sequence[int] = ()
    unsettled: Sequence[int] = ()
    unhealthy_windows: Sequence[int] | None = None
    suspended: bool = False
    snapshots: Verdict | None = None


@dataclass(frozen=True, slots=True)
class _Verdict:
    type: str
    holds: bool | None
    reason: str
    message: str


def judge(
    health: Health, *, generation: int, earlier: Sequence[Condition], now: datetime
) -> list[Condition]:
    """All conditions of a stream that is looked after."""
    verdicts = [
        _ready(health),
        _progressing(health),
        _degraded(health),
        _window_healthy(health),
        _Verdict("ReconciliationPaused", False, "Active", "The operator looks after the stream."),
    ]
    if told := health.snapshots:
        verdicts.append(_Verdict("SnapshotsHealthy", told.holds, told.reason, told.message))
    return [_condition(verdict, generation, earlier, now) for verdict in verdicts]


def paused(*, generation: int, earlier: Sequence[Condition], now: datetime) -> list[Condition]:
    """The conditions of a stream whose owner keeps the operator off it; the others stay as they were."""
    message = (
        "Nothing is changed, mended or rolled out until the annotation "
        "dedupestream.io/pause-reconciliation is removed."
    )
    verdict = _Verdict("ReconciliationPaused", True, "Annotated", message)
    others = [one for one in earlier if one.type != verdict.type]
    return [*others, _condition(verdict, generation, earlier, now)]


def invalid(
    message: str, *, generation: int, earlier: Sequence[Condition], now: datetime
) -> list[Condition]:
    """The conditions of a stream the API server took, and this operator can't read."""
    others = [one for one in earlier if one.type not in {"Ready", "Degraded"}]
    verdicts = (
        _Verdict("Ready", False, "InvalidManifest", message),
        _Verdict("Degraded", True, "InvalidManifest", message),
    )
    return [*(_condition(one, generation, earlier, now) for one in verdicts), *others]


def _ready(health: Health) -> _Verdict:
    if health.suspended:
        message = "All workers are stopped; set spec.suspend to false to resume."
        return _Verdict("Ready", False, "Suspended", message)
    count = sum(partition.ready for partition in health.partitions)
    counted = f"{count} of {len(health.partitions)} partitions are ready"
    if health.partitions and count == len(health.partitions):
        return _Verdict("Ready", True, "AllPartitionsReady", f"{counted}.")
    if health.problems:
        first = health.problems[0]
        return _Verdict("Ready", False, first.reason, f"{counted}. {_sentence(first.message)}")
    return _Verdict("Ready", False, "PartitionsNotReady", f"{counted}.")


def _progressing(health: Health) -> _Verdict:
    waiting, unsettled = _which(health.waiting), _which(health.unsettled)
    if health.problems and waiting:
        message = f"Held back before {waiting}. {_sentence(health.problems[0].message)}"
        return _Verdict("Progressing", False, "RolloutHeldBack", message)
    if health.problems and unsettled:
        reason = health.problems[0].reason
        return _Verdict("Progressing", False, reason, f"Waiting for {unsettled}.")
    if waiting:
        message = f"One after another: {waiting} to come."
        return _Verdict("Progressing", True, "RollingOut", message)
    if unsettled:
        return _Verdict("Progressing", True, "Starting", f"Waiting for {unsettled} to be ready.")
    return _Verdict("Progressing", False, "UpToDate", "All workers are as the spec wants them.")


def _degraded(health: Health) -> _Verdict:
    if not health.problems:
        return _Verdict("Degraded", False, "AsExpected", "Nothing is wrong.")
    told = [_sentence(one.message) for one in dict.fromkeys(health.problems)]
    message = " ".join(told[:_SHOWN_PROBLEMS])
    if len(told) > _SHOWN_PROBLEMS:
        message += f" And {len(told) - _SHOWN_PROBLEMS} more."
    return _Verdict("Degraded", True, health.problems[0].reason, message)


def _window_healthy(health: Health) -> _Verdict:
    if health.unhealthy_windows is None:
        return _Verdict("WindowHealthy", None, "NoWorkerAnswers", "No worker tells its window.")
    if not health.unhealthy_windows:
        message = "No id younger than spec.store.window.alertBelow was given up."
        return _Verdict("WindowHealthy", True, "LongEnough", message)
    message = (
        f"Ids are given up before spec.store.window.alertBelow in {_which(health.unhealthy_windows)}: "
        "raise spec.store.window.maxBytes and spec.storage.size."
    )
    return _Verdict("WindowHealthy", False, "TooShort", message)


def _condition(
    verdict: _Verdict, generation: int, earlier: Sequence[Condition], now: datetime
) -> Condition:
    words = {
        True: ConditionStatus.TRUE,
        False: ConditionStatus.FALSE,
        None: ConditionStatus.UNKNOWN,
    }
    status = words[verdict.holds]
    same = next((one for one in earlier if one.type == verdict.type and one.status is status), None)
    return Condition(
        type=verdict.type,
        status=status,
        observed_generation=generation,
        last_transition_time=same.last_transition_time if same else now,
        reason=verdict.reason,
        message=verdict.message[:_LONGEST_MESSAGE],
    )


def _which(partitions: Sequence[int]) -> str:
    return f"partition{'s' * (len(partitions) > 1)} {ranges(partitions)}" if partitions else ""


def _sentence(text: str) -> str:
    """A message as a sentence.

    >>> _sentence("the topic is gone")
    'The topic is gone.'
    """
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!")) else ".")
