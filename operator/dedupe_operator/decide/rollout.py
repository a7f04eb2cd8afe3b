"""One partition at a time: which workers may be changed now."""

from collections.abc import Mapping
from dataclasses import dataclass

from dedupe_operator.decide.drift import is_as_wanted
from dedupe_operator.kubernetes.names import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """A partition's worker as far as a rollout is concerned.

    `current`: its StatefulSet is there, as wanted. `settled`: its pod is of that StatefulSet's newest
    revision and ready, or there is none and none is wanted. `idle`: it is stopped, or shall be.
    """

    current: bool
    settled: bool
    idle: bool


def worker_state(live: Object | None, pod: Object | None, wanted: Object) -> WorkerState:
    """Judge one partition."""
    if live is None:
        return WorkerState(current=False, settled=False, idle=True)
    return WorkerState(
        current=is_as_wanted(live, wanted),
        settled=_is_settled(live, pod),
        idle=0 in (live["spec"].get("replicas"), wanted["spec"]["replicas"]),
    )


def may_change(workers: Mapping[int, WorkerState]) -> set[int]:
    """The partitions whose StatefulSet may be applied now.

    A worker that is missing, stopped, or not ready has nothing to lose. One that is ready is
    changed only while all others are: so a version that can't start stops the rollout at its
    first partition.
    """
    outdated = {partition: worker for partition, worker in workers.items() if not worker.current}
    at_once = {
        partition for partition, worker in outdated.items() if worker.idle or not worker.settled
    }
    waiting = sorted(outdated.keys() - at_once)
    if waiting and all(worker.settled for worker in workers.values()):
        return {waiting[0]}
    return at_once


def is_stuck(live: Object, pod: Object | None) -> bool:
    """Whether a pod of an older revision keeps its own replacement away.

    A StatefulSet waits for such a pod to become ready before it replaces it: for ever, if its image
    does not exist (https://github.com/kubernetes/kubernetes/issues/67250).
    """
    if pod is None or pod["metadata"].get("deletionTimestamp") or is_ready(pod):
        return False
    status = live.get("status") or {}
    revision = pod["metadata"].get("labels", {}).get("controller-revision-hash")
    return bool(_is_observed(live)) and revision != status.get("updateRevision")


def is_ready(pod: Object | None) -> bool:
    """Whether a pod is ready, and not on its way out."""
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _is_settled(live: Object, pod: Object | None) -> bool:
    if not _is_observed(live):
        return False
    if live["spec"].get("replicas") == 0:
        return pod is None
    revision = (pod or {}).get("metadata", {}).get("labels", {}).get("controller-revision-hash")
    return is_ready(pod) and revision == live["status"].get("updateRevision")


def _is_observed(live: Object) -> bool:
    """Whether the StatefulSet's controller has seen its last change."""
    observed = (live.get("status") or {}).get("observedGeneration", 0)
    return bool(observed >= live["metadata"].get("generation", 0))
