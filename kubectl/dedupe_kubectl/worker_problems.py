"""What keeps a partition from its work: as its worker says, its pod shows, and the operator found."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dedupe_crds.status import PartitionStatus
from dedupe_crds.worker_status import ExitCode, WorkerStatus
from dedupe_kubectl.look import Look
from dedupe_kubectl.objects import Object, Stream, is_ready

_CONTAINER: Final = "worker"
_IMAGE_REASONS: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)
_NO_POD: Final = frozenset({"FailedCreate", "ProvisioningFailed", "FailedBinding"})
_NO_VOLUME: Final = frozenset(
    {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "ProvisioningFailed"}
)
_ENDINGS: Final = {
    ExitCode.CONFIG: ("its configuration can't be used", "correct spec as the worker's log says"),
    ExitCode.IDENTITY_REFUSED: (
        "its volume belongs to another stream or partition",
        "see the worker's log for whose it is; never copy volumes between partitions",
    ),
    ExitCode.FENCED: (
        "a newer worker of the same partition took over",
        "see that no other worker runs for this stream, such as `dedupe run`",
    ),
    ExitCode.STATE_LOCKED: (
        "another process uses its volume",
        "see that no other pod mounts the volume",
    ),
    ExitCode.UNSUPPORTED: (
        "this release does not do what the spec asks for",
        "change the field that the worker's log names",
    ),
    ExitCode.STUCK: ("a call to Kafka never returned", "see that the brokers answer"),
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something wrong with one partition. `do` is empty where `reason` says what to do."""

    partition: int
    what: str
    why: str
    reason: str = ""
    do: str = ""
    events: Sequence[str] = ()


def worker_findings(look: Look, events: Sequence[Object]) -> list[Finding]:
    """What is wrong with each partition; one finding for each, the one nearest to the cause."""
    found = []
    for partition in look.partitions:
        told, worker = look.stream.partition(partition), look.workers.get(partition)
        pod = look.pods.get(partition)
        if pod and is_ready(pod) and worker and worker.ready:
            finding = _of_window(partition, worker)
        elif look.pods_known and pod is None and look.stream.suspended:
            finding = None
        else:
            shown = related(events, look.stream.name, partition)
            finding = (
                _of_worker(partition, worker)
                or _of_status(look.stream, told, shown)
                or _of_pod(partition, pod, shown)
                or (_without_words(look.stream, partition, pod, shown) if look.pods_known else None)
            )
        if finding:
            found.append(finding)
    return found


def related(events: Sequence[Object], stream: str, partition: int) -> list[Object]:
    """The events about a partition's objects, newest first."""
    names = {
        "StatefulSet": f"{stream}-{partition}",
        "Pod": f"{stream}-{partition}-0",
        "PersistentVolumeClaim": rf"{stream}-{partition}-[0-9]+",
    }
    about = [
        event
        for event in events
        if (name := names.get(event["involvedObject"].get("kind", "")))
        and re.fullmatch(name, event["involvedObject"].get("name", ""))
    ]
    return sorted(about, key=event_time, reverse=True)


def event_time(event: Object) -> str:
    """When an event was seen last, in RFC 3339."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _of_worker(partition: int, worker: WorkerStatus | None) -> Finding | None:
    if worker is None or worker.ready or not worker.reason:
        return None
    why = f"{worker.reason}: {worker.message}" if worker.message else worker.reason
    return Finding(partition=partition, what="its worker waits", why=why, reason=worker.reason)


def _of_window(partition: int, worker: WorkerStatus) -> Finding | None:
    if worker.window.healthy:
        return None
    return Finding(
        partition=partition,
        what="it forgets ids too soon",
        why="ids younger than spec.store.window.alertBelow were given up for size, or lost",
        reason="TooShort",
    )


def _of_pod(partition: int, pod: Object | None, events: Sequence[Object]) -> Finding | None:
    """Why a pod does not run its worker."""
    status = (pod or {}).get("status") or {}
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Finding(
                partition=partition,
                what="no node takes its pod",
                why=condition.get("message") or "Unschedulable",
                reason="Unschedulable",
                events=_lines(events),
            )
    for container in status.get("containerStatuses") or []:
        if container["name"] == _CONTAINER and not container.get("ready"):
            return _of_container(partition, container, events)
    return None


def _of_container(partition: int, container: Object, events: Sequence[Object]) -> Finding | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    why = waiting.get("message") or waiting.get("reason", "")
    if waiting.get("reason") in _IMAGE_REASONS:
        return Finding(
            partition=partition,
            what="its image cannot be pulled",
            why=f"{container.get('image')}: {why}",
            reason="ImagePullFailed",
        )
    if str(waiting.get("reason", "")).startswith("CreateContainer"):
        return Finding(
            partition=partition,
            what="its container cannot be made",
            why=why,
            do="create or correct what the message names, such as a Secret",
            events=_lines(events),
        )
    ended = (container.get("state") or {}).get("terminated") or (
        container.get("lastState") or {}
    ).get("terminated")
    return _of_ending(partition, ended) if ended and ended.get("exitCode") else None


def _of_ending(partition: int, ended: Object) -> Finding:
    if ended.get("reason") == "OOMKilled":
        return Finding(
            partition=partition,
            what="its worker is killed for its memory",
            why="it took more than spec.worker.resources.limits.memory",
            reason="OutOfMemory",
        )
    code = ended["exitCode"]
    why, do = _ENDINGS.get(code, ("see its log", "see the worker's log: kubectl logs --previous"))
    return Finding(
        partition=partition,
        what="its worker ends again and again",
        why=f"exit code {code}: {why}",
        do=do,
    )


def _of_status(
    stream: Stream, told: PartitionStatus | None, events: Sequence[Object]
) -> Finding | None:
    """What the operator found: it knows more than the pod shows, such as the worker's last words."""
    if told is None or told.ready or not told.message:
        return None
    degraded = stream.condition("Degraded")
    # A condition writes the same message as a sentence, perhaps of several partitions.
    told_there = degraded and told.message.strip(" .").lower() in degraded.message.lower()
    return Finding(
        partition=told.partition,
        what=f"it is not ready ({told.phase.value})",
        why=told.message,
        reason=degraded.reason if degraded and told_there else "",
        events=_lines(events),
    )


def _without_words(
    stream: Stream, partition: int, pod: Object | None, events: Sequence[Object]
) -> Finding | None:
    """A pod that is not there, or does not get its volume: events alone say why."""
    causes = _NO_POD if pod is None else _NO_VOLUME
    telling = [event for event in events if event.get("reason") in causes]
    if telling:
        return Finding(
            partition=partition,
            what="it has no pod" if pod is None else "its pod does not start",
            why=str(telling[0].get("message", "")),
            do="mend what the message names",
            events=_lines(telling),
        )
    if pod is not None or stream.holds("Progressing"):
        return None  # on its way, and nobody says that it is not
    return Finding(
        partition=partition,
        what="it has no pod",
        why="nothing says why",
        do="see that the operator and the cluster's controllers run",
    )


def _lines(events: Sequence[Object]) -> tuple[str, ...]:
    return tuple(f"{event.get('reason')}: {event.get('message')}" for event in events[:3])
