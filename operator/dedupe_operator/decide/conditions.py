"""Judge a stream's health, as Kubernetes conditions with stable reasons.

The reconciler calls it at the end of each pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

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
from dedupe_operator.decide.verdict import SUSPENDED, Verdict, condition, sentence, which

_SHOWN_PROBLEMS: Final = 5
# Of what workers report, what another condition says: WindowHealthy, InputPartitionsAdded.
_OWN_CONDITIONS: Final = {"WindowShortened", "InputPartitionsAdded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The facts from which conditions are judged.

    `problems` has the gravest first. `waiting` are partitions whose rollout has not begun, `starting` those whose
    workers are not ready yet; with `routers_change` not all routers have the newest template. `unhealthy_windows` is
    None while no worker answers, and `workers` are those that do. `added` are partitions that were added to the input,
    and wait, None in a pass in which Kafka did not answer. `snapshots` is None if the spec wants none, `routers` and
    `growth` if the stream has no routers. `joining` are partitions that a growth adds, and that do not count yet.
    """

    partitions: Sequence[PartitionStatus]
    problems: Sequence[Problem]
    waiting: Sequence[int] = ()
    starting: Sequence[int] = ()
    routers_change: bool = False
    unhealthy_windows: Sequence[int] | None = None
    workers: Mapping[int, WorkerStatus] = field(default_factory=dict)
    suspended: bool = False
    added: Sequence[int] | None = ()
    partitioning: Partitioning | None = None
    snapshots: Verdict | None = None
    routers: RoutersStatus | None = None
    growth: GrowthView | None = None
    joining: frozenset[int] = frozenset()


def judge(
    health: Health, *, generation: int, earlier: Sequence[Condition], now: datetime
) -> list[Condition]:
    """Return all conditions of a stream that is not paused."""
    verdicts = [
        _ready(health),
        _progressing(health),
        _reconciling(health),
        _degraded(health),
        _window_healthy(health),
        _guarantees_met(health),
        _input_partitions_added(health, earlier),
        _input_partitioning(health, earlier),
        Verdict("ReconciliationPaused", False, "Active", "The operator reconciles the stream."),
    ]
    growing = growth.judge(health.growth) if health.growth else None
    verdicts += [each for each in (health.snapshots, growing) if each is not None]
    judged = [condition(verdict, generation, earlier, now) for verdict in verdicts]
    ready, changing = judged[0], health.waiting or health.starting or health.routers_change
    if not changing or ready.status is not ConditionStatus.TRUE:
        return judged
    # Some ready workers are of a generation before: who waits for Ready of this one, waits until all have changed.
    older = max(0, generation - 1)
    return [ready.model_copy(update={"observed_generation": older}), *judged[1:]]


def _ready(health: Health) -> Verdict:
    if health.suspended:
        return Verdict("Ready", False, "Suspended", SUSPENDED)
    counting = [each for each in health.partitions if each.partition not in health.joining]
    count = sum(partition.ready for partition in counting)
    counted = f"{count} of {len(counting)} partitions are ready"
    counted += growth.joining_clause(health.joining)
    routers = health.routers
    if counting and count == len(counting):
        if routers and not routers.ready:
            why = f": {routers.reason}: {routers.message}" if routers.reason else ""
            message = f"{counted}. {sentence(f'no router is ready{why}')}"
            return Verdict("Ready", False, "RoutersNotReady", message)
        return Verdict("Ready", True, "AllPartitionsReady", f"{counted}.")
    if health.problems:
        first = health.problems[0]
        return Verdict("Ready", False, first.reason, f"{counted}. {sentence(first.message)}")
    if health.growth and health.growth.adds_routers:
        return Verdict("Ready", False, "ChangingToRouters", f"{counted}. {growth.SILENT}")
    return Verdict("Ready", False, "PartitionsNotReady", f"{counted}.")


def _progressing(health: Health) -> Verdict:
    waiting, starting = which(health.waiting), _starting(health)
    if health.problems and waiting:
        message = f"The rollout waits before {waiting}. {sentence(health.problems[0].message)}"
        return Verdict("Progressing", False, "RolloutHeldBack", message)
    if health.problems and starting:
        reason = health.problems[0].reason
        return Verdict("Progressing", False, reason, f"Waiting for {starting}.")
    if waiting:
        message = f"Workers change one after another; {waiting} not changed yet."
        return Verdict("Progressing", True, "RollingOut", message)
    if starting:
        return Verdict("Progressing", True, "Starting", f"Waiting for {starting} to be ready.")
    return Verdict("Progressing", False, "UpToDate", "All workers match the spec.")


def _reconciling(health: Health) -> Verdict:
    """Judge whether workers do not match the spec yet, whatever the cause.

    Tools that wait for a rollout, such as Flux and helm, read this condition (kstatus).
    """
    if health.waiting or health.routers_change or _starting(health):
        message = "Not all workers match the spec and are ready; see Progressing."
        return Verdict("Reconciling", True, "WorkersChange", message)
    return Verdict("Reconciling", False, "UpToDate", "All workers match the spec.")


def _starting(health: Health) -> str:
    """Return who is not ready yet; empty if all are."""
    found = [which(health.starting)] if health.starting else []
    routers = health.routers
    if routers and routers.ready < routers.replicas:
        count = routers.replicas - routers.ready
        found.append(f"{count} router{'s' * (count > 1)}")
    return " and ".join(found)


def _degraded(health: Health) -> Verdict:
    if not health.problems:
        return Verdict("Degraded", False, "AsExpected", "Nothing is wrong.")
    sentences = [sentence(problem.message) for problem in dict.fromkeys(health.problems)]
    return Verdict("Degraded", True, health.problems[0].reason, _first_of(sentences))


def _window_healthy(health: Health) -> Verdict:
    if health.unhealthy_windows is None:
        return Verdict("WindowHealthy", None, "NoWorkerAnswers", "No worker reports its window.")
    if not health.unhealthy_windows:
        message = "No id younger than spec.store.window.alertBelow was evicted."
        return Verdict("WindowHealthy", True, "LongEnough", message)
    message = (
        f"Ids are evicted before spec.store.window.alertBelow in {which(health.unhealthy_windows)}: "
        "raise spec.store.window.maxBytes and spec.storage.size."
    )
    return Verdict("WindowHealthy", False, "TooShort", message)


def _guarantees_met(health: Health) -> Verdict:
    """Judge what workers report although they run.

    Messages have no figures, which would change and cause writes.
    """
    if not health.workers:
        return Verdict("GuaranteesMet", None, "NoWorkerAnswers", "No worker answers.")
    found: dict[tuple[str, str], list[int]] = {}
    for partition, worker in sorted(health.workers.items()):
        for each in worker.degraded:
            if each.reason not in _OWN_CONDITIONS:
                found.setdefault((each.reason, each.message), []).append(partition)
    if not found:
        return Verdict("GuaranteesMet", True, "AsExpected", "Every guarantee is kept.")
    sentences = [
        f"{reason} in {which(partitions)}: {sentence(message)}"
        for (reason, message), partitions in sorted(found.items())
    ]
    return Verdict("GuaranteesMet", False, min(found)[0], _first_of(sentences))


def _input_partitions_added(health: Health, earlier: Sequence[Condition]) -> Verdict:
    before = next((each for each in earlier if each.type == "InputPartitionsAdded"), None)
    if health.added is None and before and before.status is not ConditionStatus.UNKNOWN:
        holds = before.status is ConditionStatus.TRUE
        return Verdict("InputPartitionsAdded", holds, before.reason, before.message)
    if not health.added:
        message = "No partition of the input waits for a worker."
        return Verdict("InputPartitionsAdded", False, "AllPartitionsServed", message)
    message = describe_added(health.added)
    return Verdict("InputPartitionsAdded", True, "InputPartitionsAdded", message)


def _input_partitioning(health: Health, earlier: Sequence[Condition]) -> Verdict:
    """Judge how records come to their partitions.

    A worker that has just started has no sample; and a share in a message would change and cause writes. So the earlier
    verdict stays until there is another one, such as that of a stream that has got routers. That of routers follows
    from the manifest, so it is always the present one.
    """
    type_, found = "InputPartitioning", health.partitioning
    before = next((each for each in earlier if each.type == type_), None)
    unknown = found is None or found.reason is PartitioningReason.NOT_SAMPLED
    is_sampled = found is None or not found.by_routers
    is_same = unknown or (is_sampled and before and found and found.reason == before.reason)
    if before and is_same and before.status is not ConditionStatus.UNKNOWN:
        holds = before.status is ConditionStatus.TRUE
        return Verdict(type_, holds, before.reason, before.message)
    if found is None or not health.workers:
        return Verdict(type_, None, "NoWorkerAnswers", "No worker answers.")
    return Verdict(type_, found.meet, found.reason, sentence(found.message))


def _first_of(sentences: Sequence[str]) -> str:
    """Join the first sentences, with the number of the others."""
    message = " ".join(sentences[:_SHOWN_PROBLEMS])
    if len(sentences) > _SHOWN_PROBLEMS:
        message += f" And {len(sentences) - _SHOWN_PROBLEMS} more."
    return message
