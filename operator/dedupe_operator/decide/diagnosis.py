"""Diagnose why a worker or a router is not ready: from its pod, its claim, events.

The reconciler calls it for each partition and each router that is not ready. Each diagnosis is a `Problem` that the
status shows.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.formatting import ranges
from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.router import RouterStatus
from dedupe_crds.status.worker import Phase, WorkerStatus
from dedupe_operator.errors import refusal_reason
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_template import CONTAINER, STATE_VOLUME
from dedupe_operator.resources.router_stateful_set import ROUTER_CONTAINER


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem for a user to fix: a stable CamelCase reason and a message."""

    reason: str
    message: str


_PATIENCE: Final = timedelta(seconds=15)
_IMAGE_REASONS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
    }
)
_WHAT_TO_DO: Final = {
    "ImagePullFailed": "correct spec.worker.image, or make the image available to the node; if a registry refuses, set "
    "spec.worker.imagePullSecrets, then delete the pod, which keeps the secrets that it began with",
    "QuotaExceeded": "raise the namespace's ResourceQuota",
    "PodSecurityViolated": "an admission plugin or a mutated pod prevents it; see the namespace's labels",
    "AdmissionDenied": "change what the policy denies, or the policy",
    "Unschedulable": "add nodes, lower spec.worker.resources, or change where spec.worker lets pods run",
    "DiskFull": "raise spec.storage.size",
}


# What exceeds a quota, as the API server names it after "requested:", and what can be lowered.
_REQUESTED: Final = re.compile(r"requested: ([^ ]*)")
_TO_LOWER: Final = (
    (re.compile(r"(cpu|memory)="), "spec.worker.resources"),
    (re.compile(r"requests\.storage="), "spec.storage.size"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Names that a diagnosis uses for one kind of process: container, fields, reasons."""

    container: str
    resources: str
    out_of_memory: str
    not_started: str
    failed: str


WORKER: Final = Process(
    container=CONTAINER,
    resources="spec.worker.resources",
    out_of_memory=", or lower spec.worker.tuning.queueBytes and blockCacheBytes",
    not_started="WorkerNotStarted",
    failed="WorkerFailed",
)
ROUTER: Final = Process(
    container=ROUTER_CONTAINER,
    resources="spec.repartition.routers.resources",
    out_of_memory="",
    not_started="RouterNotStarted",
    failed="RouterFailed",
)


def with_advice(reason: str, message: str, process: Process = WORKER) -> Problem:
    """Return a problem, with advice where there is any for this reason."""
    advice = _WHAT_TO_DO.get(reason, "")
    if reason == "QuotaExceeded" and (requested := _REQUESTED.search(message)):
        lower = [each for what, each in _TO_LOWER if what.search(requested[1])]
        advice += f", or lower {' and '.join(lower)}" if lower else ""
    advice = advice.replace(WORKER.resources, process.resources)
    return Problem(reason=reason, message=f"{message}; {advice}" if advice else message)


def by_cause(problems: Mapping[int, Problem], *, of: str = "partition") -> list[Problem]:
    """Return each distinct problem once, with its partitions in the message."""
    partitions: dict[Problem, list[int]] = {}
    for partition, problem in problems.items():
        partitions.setdefault(problem, []).append(partition)
    return [
        Problem(
            reason=problem.reason,
            message=f"{of}{'s' * (len(who) > 1)} {ranges(who)}: {problem.message}",
        )
        for problem, who in partitions.items()
    ]


def of_worker(status: WorkerStatus | None) -> Problem | None:
    """Return the problem that the worker itself reports, if any."""
    if status is None or status.ready or not status.reason:
        return None
    if status.phase in {Phase.STARTING, Phase.RECONCILING, Phase.STOPPING} and not status.message:
        return None
    return with_advice(status.reason, status.message or status.reason)


def of_router(status: RouterStatus | None) -> Problem | None:
    """Return the problem that the router itself reports, if any."""
    if status is None or status.ready or not status.reason:
        return None
    return Problem(reason=status.reason, message=status.message or status.reason)


def of_claim(claim: Object | None, events: Sequence[Object]) -> Problem | None:
    """Return why a claim has no volume yet, None if it has or if no event explains it."""
    if claim is None or (claim.get("status") or {}).get("phase") != "Pending":
        return None
    for event in _newest_first(events):
        if event.get("reason") in {"ProvisioningFailed", "FailedBinding"}:
            return _failed_provisioning(claim, str(event.get("message", "")))
    return None


def of_pod(
    pod: Object | None,
    stateful_set: Object | None,
    events: Sequence[Object],
    now: datetime,
    process: Process = WORKER,
) -> Problem | None:
    """Return why a worker or router does not run, None if there is no known reason.

    `events` are those of the pod, or of the StatefulSet if there is no pod.
    """
    if pod is None:
        return _not_created(stateful_set, events, process)
    if pod["metadata"].get("deletionTimestamp"):
        return None
    status = pod.get("status") or {}
    # Scheduling a pod, or detaching its volume from another node, takes a while.
    late = now - datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) > _PATIENCE
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and late:
            message = condition.get("message", "no node can run the pod")
            return with_advice("Unschedulable", message, process)
    containers = status.get("containerStatuses") or []
    for container in sorted(containers, key=lambda each: each["name"] != process.container):
        of_its_own = container["name"] == process.container
        problem = _of_container(container, process) if of_its_own else _of_sidecar(container)
        if problem:
            return problem
    return _of_volume(events) if late else None


def exit_code(pod: Object | None) -> int | None:
    """Return the last exit code of a worker that is not ready, None if it did not end."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or []
    container = next((each for each in statuses if each["name"] == CONTAINER), None)
    if container is None or container.get("ready"):
        return None
    ended = (container.get("state") or {}).get("terminated")
    ended = ended or (container.get("lastState") or {}).get("terminated")
    return int(ended["exitCode"]) if ended else None


def lost_window_to_damage(worker: WorkerStatus) -> bool:
    """Return whether a worker rebuilds a damaged store, or has, from too little."""
    started = worker.reconcile.reason if worker.reconcile else None
    return started == "StoreCorrupt" and worker.window is not None and worker.window.truncated


def mounted_claim(pod: Object | None) -> str | None:
    """Return the name of the claim that a worker's pod mounts for its store."""
    volumes = ((pod or {}).get("spec") or {}).get("volumes") or []
    claims = [each["persistentVolumeClaim"] for each in volumes if each["name"] == STATE_VOLUME]
    return str(claims[0]["claimName"]) if claims else None


def _of_container(container: Object, process: Process) -> Problem | None:
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    if waiting.get("reason") in _IMAGE_REASONS:
        # Between two attempts the kubelet puts its own words before the cause.
        message = str(waiting.get("message") or waiting["reason"]).rpartition("ErrImagePull: ")[2]
        return with_advice("ImagePullFailed", f"image {container.get('image')}: {message}")
    if waiting.get("reason") in {"CreateContainerConfigError", "CreateContainerError"}:
        return Problem(reason=process.not_started, message=str(waiting.get("message", "")))
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    if ended and not container.get("ready") and ended.get("exitCode"):
        return _ended(ended, process)
    return None


def _of_sidecar(container: Object) -> Problem | None:
    """Return why a container that a user has added keeps its pod from being ready."""
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if container.get("ready") or waiting.get("reason") in {"ContainerCreating", "PodInitializing"}:
        return None
    if not waiting and not ended:
        return None
    why = str(
        waiting.get("message") or waiting.get("reason") or f"exit code {ended.get('exitCode')}"
    )
    if waiting.get("reason") == "CrashLoopBackOff":
        why = "it ends repeatedly"  # the kubelet's message has a time, which grows
    why = why.rpartition("ErrImagePull: ")[2]
    return Problem(
        reason="SidecarFailed",
        message=f"container {container['name']} does not run: {why}; correct spec.worker.sidecars, or see its log",
    )


def _ended(ended: Object, process: Process) -> Problem:
    code = ended["exitCode"]
    if ended.get("reason") == "OOMKilled":
        return Problem(
            reason="OutOfMemory",
            message=f"the {process.container} exceeded its memory limit and was killed; raise "
            f"{process.resources}.limits.memory{process.out_of_memory}",
        )
    last = _last_error(str(ended.get("message", "")))
    name = ExitCode(code).name if code in list(ExitCode) else "unknown"
    return Problem(
        reason=last.reason if last else process.failed,
        message=f"the {process.container} ended with exit code {code} ({name})"
        + (f": {last.message}" if last else "; see its log"),
    )


def _last_error(log: str) -> Problem | None:
    """Return the last error in a worker's JSON log lines."""
    for line in reversed(log.splitlines()):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("reason") and entry.get("error"):
            return Problem(reason=str(entry["reason"]), message=str(entry["error"]))
    return None


def _not_created(
    stateful_set: Object | None, events: Sequence[Object], process: Process
) -> Problem | None:
    """Return why there is no pod, which the StatefulSet controller's events say."""
    if stateful_set is None or stateful_set["spec"].get("replicas") == 0:
        return None
    for event in _newest_first(events):
        if event.get("reason") == "FailedCreate":
            message = str(event.get("message", ""))
            return with_advice(refusal_reason(403, message), message, process)
    return None


def _of_volume(events: Sequence[Object]) -> Problem | None:
    for event in _newest_first(events):
        if event.get("reason") in {"FailedMount", "FailedAttachVolume"}:
            return Problem(reason="VolumeNotMounted", message=str(event.get("message", "")))
    return None


def _failed_provisioning(claim: Object, message: str) -> Problem:
    class_name = claim["spec"].get("storageClassName")
    if "not found" in message and class_name:
        return Problem(
            reason="StorageClassMissing",
            message=f"there is no StorageClass {class_name}: create it, or name another in "
            "spec.storage.storageClassName",
        )
    if not class_name and "no storage class is set" in message:
        return Problem(
            reason="StorageClassMissing",
            message="the cluster has no default StorageClass: name one in spec.storage.storageClassName",
        )
    return with_advice(
        "QuotaExceeded" if "exceeded quota" in message else "VolumeNotProvisioned", message
    )


def _newest_first(events: Sequence[Object]) -> list[Object]:
    return sorted(events, key=lambda event: str(event.get("lastTimestamp") or ""), reverse=True)
