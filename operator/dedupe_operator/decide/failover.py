"""When a worker is moved away from its node by force, and when a volume is let go there.

Kafka fences a worker that still runs on such a node; so what is decided here is when it pays, not whether it is safe.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.decide import rollout
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_template import CONTAINER

_PATIENCE: Final = timedelta(seconds=10)
# Two that replace each other for ever, as those of two clusters, must not keep Kafka busy with it.
_FENCED_PATIENCE: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A node that runs nothing, as far as anybody knows. `what` is wrong with it `since` then."""

    node: str
    since: datetime
    what: str

    def ends_patience(self, patience: timedelta) -> datetime:
        """When its workers are moved."""
        return self.since + patience


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What becomes of workers on nodes that are out, by their partitions: `due` are those whose pods
    are deleted by force now, `later` those that are left until the outage has lasted long enough."""

    due: Mapping[int, Outage]
    later: Mapping[int, Outage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detachment:
    """A volume that is still attached to a node it is not needed on any more."""

    partition: int
    attachment: Object
    outage: Outage


def in_doubt(pods: Mapping[int, Object]) -> dict[int, Object]:
    """The pods whose nodes may be out: a ready one's is not."""
    return {
        partition: pod
        for partition, pod in pods.items()
        if not rollout.is_ready(pod) and node_of(pod) is not None
    }


def node_of(pod: Object) -> str | None:
    """The node a pod was given, None if it still waits for one."""
    name = pod["spec"].get("nodeName")
    return None if name is None else str(name)


def outage(name: str, node: Object | None, *, missing_since: datetime) -> Outage | None:
    """What is wrong with a node, None if nothing is. `missing_since` counts if there is none of that name."""
    if node is None:
        return Outage(node=name, since=missing_since, what="does not exist any more")
    for condition in (node.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready" and condition["status"] != "True":
            since = datetime.fromisoformat(condition["lastTransitionTime"])
            why = condition.get("message") or condition.get("reason") or "no reason given"
            return Outage(node=name, since=since, what=f"is NotReady ({str(why).rstrip('.')})")
    return None


def moves(
    pods: Mapping[int, Object],
    outages: Mapping[str, Outage],
    *,
    patience: timedelta,
    now: datetime,
) -> Moves:
    """Choose among pods `in_doubt` those whose node has been out for `patience`, spec.failover.nodeNotReadyAfter."""
    concerned = {
        partition: outages[name]
        for partition, pod in pods.items()
        if (name := node_of(pod)) is not None and name in outages
    }
    due = {p: one for p, one in concerned.items() if one.ends_patience(patience) <= now}
    return Moves(due=due, later={p: one for p, one in concerned.items() if p not in due})


def was_fenced(pod: Object, worker: WorkerStatus | None, now: datetime) -> bool:
    """Whether a pod's worker has stood by for a while because another one has taken over.

    That one is none that Kubernetes knows of: it runs where it should not, such as on a node that is cut off.
    """
    if worker is None or worker.reason != "Fenced" or pod["metadata"].get("deletionTimestamp"):
        return False
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        running = (container.get("state") or {}).get("running")
        if container["name"] == CONTAINER and running:
            return now - datetime.fromisoformat(running["startedAt"]) >= _FENCED_PATIENCE
    return False


def waits_for_its_volume(pod: Object, now: datetime) -> bool:
    """Whether a pod has a node for a while, and its container is still not made there."""
    if rollout.is_ready(pod) or pod["metadata"].get("deletionTimestamp") or not node_of(pod):
        return False
    if now - datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) < _PATIENCE:
        return False
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        if container["name"] == CONTAINER:
            waiting = (container.get("state") or {}).get("waiting") or {}
            return bool(waiting.get("reason") == "ContainerCreating")
    return True


def elsewhere(
    attachments: Sequence[Object],
    volumes: Mapping[int, str],
    pods: Mapping[int, Object],
) -> list[tuple[int, Object]]:
    """Attachments of a stream's volumes to nodes where their partition has no pod, and that are to stay.

    `volumes` are the names of the partitions' PersistentVolumes, `pods` those that are left.
    """
    partitions = {volume: partition for partition, volume in volumes.items()}
    found = []
    for attachment in attachments:
        spec = attachment["spec"]
        partition = partitions.get(spec["source"].get("persistentVolumeName") or "")
        if partition is None or attachment["metadata"].get("deletionTimestamp"):
            continue
        pod = pods.get(partition)
        if pod is None or node_of(pod) != spec["nodeName"]:
            found.append((partition, attachment))
    return found


def detachments(
    candidates: Sequence[tuple[int, Object]],
    outages: Mapping[str, Outage],
    *,
    patience: timedelta,
    now: datetime,
) -> list[Detachment]:
    """Choose among attachments `elsewhere` those to nodes that have been out for `patience`."""
    chosen = []
    for partition, attachment in candidates:
        out = outages.get(attachment["spec"]["nodeName"])
        if out is not None and out.ends_patience(patience) <= now:
            chosen.append(Detachment(partition=partition, attachment=attachment, outage=out))
    return chosen


def problem(out: Outage, patience: timedelta) -> Problem:
    """What a user is told of a worker that is left on its node for now."""
    moved = out.ends_patience(patience)
    return Problem(
        reason="NodeNotReady",
        message=f"node {out.node} {out.what} since {out.since:%H:%M:%SZ}; its worker is moved to another node "
        f"at {moved:%H:%M:%SZ} (spec.failover.nodeNotReadyAfter), unless the node is back before",
    )
