"""Decide which workers a rollout may change now: ready ones one at a time.

The applier calls it in each pass, and applies the StatefulSets of the partitions that `may_change` returns.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dedupe_operator.decide.drift import is_as_wanted
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.kubernetes.names import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """The state of a partition's worker in a rollout.

    `current`: its StatefulSet exists, as wanted. `rolled_out`: its pod has the newest revision of that StatefulSet
    and is ready, or no pod exists and none is wanted. `idle`: it is stopped, or will be.
    """

    current: bool
    rolled_out: bool
    idle: bool


def worker_state(live: Object | None, pod: Object | None, wanted: Object) -> WorkerState:
    """Return the rollout state of one partition."""
    if live is None:
        return WorkerState(current=False, rolled_out=False, idle=True)
    return WorkerState(
        current=is_as_wanted(live, wanted),
        rolled_out=_is_rolled_out(live, pod),
        idle=0 in (live["spec"].get("replicas"), wanted["spec"]["replicas"]),
    )


def may_change(
    workers: Mapping[int, WorkerState],
    *,
    besides: Collection[int] = frozenset(),
    together: bool = False,
) -> set[int]:
    """Return the partitions whose StatefulSet may be applied now.

    A worker that is absent, stopped or not ready may change at any time. A ready worker is changed only while all
    others are ready, except those in `besides`: so a version that can't start stops the rollout at its first
    partition. `together`: all change at once, because none can be ready before all others are changed as well.
    """
    outdated = {partition: worker for partition, worker in workers.items() if not worker.current}
    if together:
        return set(outdated)
    at_once = {
        partition for partition, worker in outdated.items() if worker.idle or not worker.rolled_out
    }
    waiting = sorted(outdated.keys() - at_once)
    awaited = workers.keys() - set(besides)
    if waiting and all(workers[partition].rolled_out for partition in awaited):
        return {waiting[0]}
    return at_once


def is_stuck(live: Object, pod: Object | None) -> bool:
    """Return whether a pod of an older revision blocks its own replacement.

    A StatefulSet waits until such a pod is ready before it replaces it: forever, if the image does not exist
    (https://github.com/kubernetes/kubernetes/issues/67250).
    """
    if pod is None or pod["metadata"].get("deletionTimestamp") or is_ready(pod):
        return False
    status = live.get("status") or {}
    revision = pod["metadata"].get("labels", {}).get("controller-revision-hash")
    return bool(_is_observed(live)) and revision != status.get("updateRevision")


def _is_rolled_out(live: Object, pod: Object | None) -> bool:
    if not _is_observed(live):
        return False
    if live["spec"].get("replicas") == 0:
        return pod is None
    revision = (pod or {}).get("metadata", {}).get("labels", {}).get("controller-revision-hash")
    return is_ready(pod) and revision == live["status"].get("updateRevision")


def _is_observed(live: Object) -> bool:
    """Return whether the StatefulSet controller has processed the last change."""
    observed = (live.get("status") or {}).get("observedGeneration", 0)
    return bool(observed >= live["metadata"].get("generation", 0))
