"""Decide which workers a rollout may change now: one at a time.

The applier calls it in each pass, and applies the StatefulSets of the partitions that `may_change` returns.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from dedupe_operator.decide.diagnosis import mounted_claim
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.kubernetes.names import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """The state of a partition's worker in a rollout.

    `current`: its StatefulSet exists, and an apply would change nothing. `rolled_out`: its pod has the newest revision
    of that StatefulSet and is ready, or no pod exists and none is wanted. `idle`: it is stopped, or will be. `moves`:
    it gets another volume.
    """

    current: bool
    rolled_out: bool
    idle: bool
    moves: bool = False

    @property
    def changes_at_once(self) -> bool:
        """Return whether a change stops nothing that processes messages."""
        return self.idle or (self.moves and not self.rolled_out)


def worker_state(
    live: Object | None, pod: Object | None, wanted: Object, *, current: bool
) -> WorkerState:
    """Return the rollout state of one partition; `current` as in WorkerState."""
    if live is None:
        return WorkerState(current=False, rolled_out=False, idle=True)
    return WorkerState(
        current=current,
        rolled_out=_is_rolled_out(live, pod),
        idle=0 in (live["spec"].get("replicas"), wanted["spec"]["replicas"]),
        moves=mounted_claim(live["spec"].get("template"))
        != mounted_claim(wanted["spec"].get("template")),
    )


def may_change(
    workers: Mapping[int, WorkerState],
    *,
    besides: Collection[int] = frozenset(),
    together: bool = False,
) -> set[int]:
    """Return the partitions whose StatefulSet may be applied now.

    A worker that is absent, stopped, or whose volume is replaced changes at any time. Of the others none changes while
    one that has changed is not ready, except those in `besides`: so a version that can't start stops at its first
    partition. Workers that are not ready change before those that are: one of them first, all of them once a worker is
    ready as wanted. A ready one changes only while all others are ready. `together`: all change at once, because none
    can be ready before all others are changed as well.
    """
    outdated = {partition: worker for partition, worker in workers.items() if not worker.current}
    if together:
        return set(outdated)
    at_once = {partition for partition, worker in outdated.items() if worker.changes_at_once}
    awaited = [worker for partition, worker in workers.items() if partition not in set(besides)]
    if any(worker.current and not worker.rolled_out for worker in awaited):
        return at_once
    waiting = sorted(outdated.keys() - at_once)
    if broken := [partition for partition in waiting if not workers[partition].rolled_out]:
        is_proven = any(worker.current for worker in awaited)
        return at_once | set(broken if is_proven else broken[:1])
    if all(worker.rolled_out for worker in awaited):
        return at_once | set(waiting[:1])
    return at_once


def is_stuck(live: Object, pod: Object | None) -> bool:
    """Return whether a pod of an older revision blocks its own replacement.

    A StatefulSet waits until such a pod is ready before it replaces it: forever, if the image does not exist
    (https://github.com/kubernetes/kubernetes/issues/67250).
    """
    if pod is None or pod["metadata"].get("deletionTimestamp") or is_ready(pod):
        return False
    status = live.get("status") or {}
    return _is_observed(live) and _revision(pod) != status.get("updateRevision")


def is_newest(live: Object, pods: Iterable[Object]) -> bool:
    """Return whether all pods of a StatefulSet have its newest revision."""
    newest = (live.get("status") or {}).get("updateRevision")
    return _is_observed(live) and all(_revision(pod) == newest for pod in pods)


def _revision(pod: Object | None) -> object:
    return (pod or {}).get("metadata", {}).get("labels", {}).get("controller-revision-hash")


def _is_rolled_out(live: Object, pod: Object | None) -> bool:
    if not _is_observed(live):
        return False
    if live["spec"].get("replicas") == 0:
        return pod is None
    return is_ready(pod) and _revision(pod) == live["status"].get("updateRevision")


def _is_observed(live: Object) -> bool:
    """Return whether the StatefulSet controller has processed the last change."""
    observed = (live.get("status") or {}).get("observedGeneration", 0)
    return bool(observed >= live["metadata"].get("generation", 0))
