"""Judge a stream's health, as Kubernetes conditions with stable reasons.

The reconciler calls it at the end of each pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dedupe_crds.formatting import ranges
from dedupe_crds.status.stream import (
    Condition,
    ConditionStatus,
    PartitionStatus,
    RoutersStatus,
)
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.partitioning import Partitioning, PartitioningReason, describe_added
from dedupe_operator.decide import growth
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.growth import GrowthView
from dedupe_operator.decide.snapshot_policy import Verdict

_SHOWN_PROBLEMS: Final = 5
_LONGEST_MESSAGE: Final = 4096
# Of what workers report, what another condition says: WindowHealthy, InputPartitionsAdded.
_OWN_CONDITIONS: Final = {"WindowShortened", "InputPartitionsAdded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The facts from which conditions are judged.

    `problems` has the gravest first. `waiting` are partitions whose rollout has not begun, `starting` those whose
    workers are not ready yet. `unhealthy_windows` is None while no worker answers, and `workers` are those that do.
    `added` are partitions that were added to the input, and wait. `snapshots` is None if the spec wants none, `routers`
    and `growth` if the stream has no routers. `joining` are partitions that a growth adds, and that do not count yet.
    """

    partitions: Sequence[PartitionStatus]
    problems: Sequence[Problem]
    waiting: Sequence[int] = ()
    starting: Sequence[int] = ()
    unhealthy_windows: Sequence[int] | None = None
    workers: Mapping[int, WorkerStatus] = field(default_factory=dict)
    suspended: bool = False
    added: Sequence[int] = ()
    partitioning: Partitioning | None = None
    snapshots: Verdict | None = None
    routers: RoutersStatus | None = None
    growth: GrowthView | None = None
    joining: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Verdict:
    type: str
    holds: bool | None
    reason: str
    message: str


def judge(
    health: Health, *, generation: int, earlier: Sequence[Condition], now: datetime
) -> list[Condition]:
    """Return all conditions of a stream that is not paused."""
    verdicts = [
        _ready(health),
        _progressing(health),
        _degraded(health),
        _window_healthy(health),
        _guarantees_met(health),
        _input_partitions_added(health),
        _input_partitioning(health, earlier),
        _Verdict("ReconciliationPaused", False, "Active", "The operator reconciles the stream."),
    ]
    growing = growth.judge(health.growth) if health.growth else None
    for type_, other in (("SnapshotsHealthy", health.snapshots), ("Growing", growing)):
        if other is not None:
            verdicts.append(_Verdict(type_, other.holds, other.reason, other.message))
    return [_condition(verdict, generation, earlier, now) for verdict in verdicts]


def paused(*, generation: int, earlier: Sequence[Condition], now: datetime) -> list[Condition]:
    """Return the conditions of a paused stream; all but one stay unchanged."""
    message = (
        "The operator changes, repairs and rolls out nothing until the annotation "
        "dedupestream.io/pause-reconciliation is removed."
    )
    verdict = _Verdict("ReconciliationPaused", True, "Annotated", message)
    others = [each for each in earlier if each.type != verdict.type]
    return [*others, _condition(verdict, generation, earlier, now)]


def invalid(
    message: str, *, generation: int, earlier: Sequence[Condition], now: datetime
) -> list[Condition]:
    """Return the conditions of a stream that this operator can't read.

    The API server accepted it, by another version of the schema.
    """
    others = [each for each in earlier if each.type not in {"Ready", "Degraded"}]
    verdicts = (
        _Verdict("Ready", False, "InvalidManifest", message),
        _Verdict("Degraded", True, "InvalidManifest", message),
    )
    return [*(_condition(verdict, generation, earlier, now) for verdict in verdicts), *others]


def _ready(health: Health) -> _Verdict:
    if health.suspended:
        message = "All workers are stopped; set spec.suspend to false to resume."
        return _Verdict("Ready", False, "Suspended", message)
    counting = [each for each in health.partitions if each.partition not in health.joining]
    count = sum(partition.ready for partition in counting)
    counted = f"{count} of {len(counting)} partitions are ready"
    counted += growth.joining_clause(health.joining)
    routers = health.routers
    if counting and count == len(counting):
        if routers and not routers.ready:
            why = f": {routers.reason}: {routers.message}" if routers.reason else ""
            message = f"{counted}. {_sentence(f'no router is ready{why}')}"
            return _Verdict("Ready", False, "RoutersNotReady", message)
        return _Verdict("Ready", True, "AllPartitionsReady", f"{counted}.")
    if health.problems:
        first = health.problems[0]
        return _Verdict("Ready", False, first.reason, f"{counted}. {_sentence(first.message)}")
    if health.growth and health.growth.adds_routers:
        return _Verdict("Ready", False, "ChangingToRouters", f"{counted}. {growth.SILENT}")
    return _Verdict("Ready", False, "PartitionsNotReady", f"{counted}.")


def _progressing(health: Health) -> _Verdict:
    waiting, starting = _which(health.waiting), _starting(health)
    if health.problems and waiting:
        message = f"The rollout waits before {waiting}. {_sentence(health.problems[0].message)}"
        return _Verdict("Progressing", False, "RolloutHeldBack", message)
    if health.problems and starting:
        reason = health.problems[0].reason
        return _Verdict("Progressing", False, reason, f"Waiting for {starting}.")
    if waiting:
        message = f"Workers change one after another; {waiting} not changed yet."
        return _Verdict("Progressing", True, "RollingOut", message)
    if starting:
        return _Verdict("Progressing", True, "Starting", f"Waiting for {starting} to be ready.")
    return _Verdict("Progressing", False, "UpToDate", "All workers match the spec.")


def _starting(health: Health) -> str:
    """Return who is not ready yet; empty if all are."""
    found = [_which(health.starting)] if health.starting else []
    routers = health.routers
    if routers and routers.ready < routers.replicas:
        count = routers.replicas - routers.ready
        found.append(f"{count} router{'s' * (count > 1)}")
    return " and ".join(found)


def _degraded(health: Health) -> _Verdict:
    if not health.problems:
        return _Verdict("Degraded", False, "AsExpected", "Nothing is wrong.")
    sentences = [_sentence(problem.message) for problem in dict.fromkeys(health.problems)]
    return _Verdict("Degraded", True, health.problems[0].reason, _first_of(sentences))


def _window_healthy(health: Health) -> _Verdict:
    if health.unhealthy_windows is None:
        return _Verdict("WindowHealthy", None, "NoWorkerAnswers", "No worker reports its window.")
    if not health.unhealthy_windows:
        message = "No id younger than spec.store.window.alertBelow was evicted."
        return _Verdict("WindowHealthy", True, "LongEnough", message)
    message = (
        f"Ids are evicted before spec.store.window.alertBelow in {_which(health.unhealthy_windows)}: "
        "raise spec.store.window.maxBytes and spec.storage.size."
    )
    return _Verdict("WindowHealthy", False, "TooShort", message)


def _guarantees_met(health: Health) -> _Verdict:
    """Judge what workers report although they run.

    Messages have no figures, which would change and cause writes.
    """
    if not health.workers:
        return _Verdict("GuaranteesMet", None, "NoWorkerAnswers", "No worker answers.")
    found: dict[tuple[str, str], list[int]] = {}
    for partition, worker in sorted(health.workers.items()):
        for each in worker.degraded:
            if each.reason not in _OWN_CONDITIONS:
                found.setdefault((each.reason, each.message), []).append(partition)
    if not found:
        return _Verdict("GuaranteesMet", True, "AsExpected", "Every guarantee is kept.")
    sentences = [
        f"{reason} in {_which(partitions)}: {_sentence(message)}"
        for (reason, message), partitions in sorted(found.items())
    ]
    return _Verdict("GuaranteesMet", False, min(found)[0], _first_of(sentences))


def _input_partitions_added(health: Health) -> _Verdict:
    if not health.added:
        message = "No partition of the input waits for a worker."
        return _Verdict("InputPartitionsAdded", False, "AllPartitionsServed", message)
    message = describe_added(health.added)
    return _Verdict("InputPartitionsAdded", True, "InputPartitionsAdded", message)


def _input_partitioning(health: Health, earlier: Sequence[Condition]) -> _Verdict:
    """Judge how records come to their partitions.

    A worker that has just started has no sample; and a share in a message would change and cause writes. So the earlier
    verdict stays until there is another one, such as that of a stream that has got routers.
    """
    type_, found = "InputPartitioning", health.partitioning
    before = next((each for each in earlier if each.type == type_), None)
    unknown = found is None or found.reason is PartitioningReason.NOT_SAMPLED
    is_same = unknown or (before and found and found.reason == before.reason)
    if before and is_same and before.status is not ConditionStatus.UNKNOWN:
        holds = before.status is ConditionStatus.TRUE
        return _Verdict(type_, holds, before.reason, before.message)
    if found is None or not health.workers:
        return _Verdict(type_, None, "NoWorkerAnswers", "No worker answers.")
    return _Verdict(type_, found.meet, found.reason, _sentence(found.message))


def _first_of(sentences: Sequence[str]) -> str:
    """Join the first sentences, with the number of the others."""
    message = " ".join(sentences[:_SHOWN_PROBLEMS])
    if len(sentences) > _SHOWN_PROBLEMS:
        message += f" And {len(sentences) - _SHOWN_PROBLEMS} more."
    return message


def _condition(
    verdict: _Verdict, generation: int, earlier: Sequence[Condition], now: datetime
) -> Condition:
    by_verdict = {
        True: ConditionStatus.TRUE,
        False: ConditionStatus.FALSE,
        None: ConditionStatus.UNKNOWN,
    }
    status = by_verdict[verdict.holds]
    same = next(
        (each for each in earlier if each.type == verdict.type and each.status is status), None
    )
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
    """Return a message as a sentence.

    >>> _sentence("the topic is gone")
    'The topic is gone.'
    """
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!")) else ".")
