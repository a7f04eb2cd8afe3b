"""Decide when a worker fails over from its node, and a volume is detached.

`dedupe_operator.failover` carries it out. Kafka fences a worker that still runs on such a node, so this module decides
when a move pays, not whether it is safe.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_template import CONTAINER

_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
_PATIENCE: Final = timedelta(seconds=10)
# Two workers that fence each other forever, for example in two clusters, must not overload Kafka.
_FENCED_PATIENCE: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A node that is out as far as Kubernetes knows: `what`, and `since` when."""

    node: str
    since: datetime
    what: str

    def failover_time(self, patience: timedelta) -> datetime:
        """Return when its workers are moved."""
        return self.since + patience


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """The nodes that can run workers: how many there are, and are not ready."""

    all: int
    not_ready: int

    def is_above(self, limit: int) -> bool:
        """Return whether more than `limit` percent are not ready."""
        return self.not_ready * 100 > limit * self.all


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Failovers by partition.

    The pods of `due` are force-deleted now; those of `later` stay until the outage has lasted long enough.
    """

    due: Mapping[int, Outage]
    later: Mapping[int, Outage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detachment:
    """A volume that is still attached to a node where it is no longer needed."""

    partition: int
    attachment: Object
    outage: Outage


def unready_on_nodes(pods: Mapping[int, Object]) -> dict[int, Object]:
    """Return the pods whose nodes may be out: assigned to a node and not ready."""
    return {
        partition: pod
        for partition, pod in pods.items()
        if not is_ready(pod) and node_of(pod) is not None
    }


def node_of(pod: Object) -> str | None:
    """Return the node that a pod is assigned to, None if it is not scheduled yet."""
    name = pod["spec"].get("nodeName")
    return None if name is None else str(name)


def outage(name: str, node: Object | None, *, missing_since: datetime) -> Outage | None:
    """Return a node's outage, None if it is ready.

    `missing_since` is the start of the outage if there is no node of that name.
    """
    if node is None:
        return Outage(node=name, since=missing_since, what="does not exist any more")
    for condition in (node.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready" and condition["status"] != "True":
            since = datetime.fromisoformat(condition["lastTransitionTime"])
            why = condition.get("message") or condition.get("reason") or "no reason given"
            return Outage(node=name, since=since, what=f"is NotReady ({str(why).rstrip('.')})")
    return None


def count_nodes(nodes: Sequence[Object]) -> NodeCount:
    """Count the nodes; those that only run the control plane do not count."""
    counting = [node for node in nodes if not _is_control_plane(node)] or nodes
    return NodeCount(all=len(counting), not_ready=sum(not _is_node_ready(one) for one in counting))


def _is_control_plane(node: Object) -> bool:
    taints = (node.get("spec") or {}).get("taints") or []
    return any(taint.get("key") == _CONTROL_PLANE for taint in taints)


def _is_node_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return all(each["status"] == "True" for each in conditions if each["type"] == "Ready")


def held_back(count: NodeCount, limit: int, *, until: datetime) -> Problem:
    """Return the problem of a worker that stays on its node during a mass outage."""
    if count.is_above(limit):
        resumes = "when fewer are"
    else:
        resumes = f"at {until:%H:%M:%SZ}, as too many were until a moment ago"
    return Problem(
        reason="FailoverHeldBack",
        message=f"{count.not_ready} of {count.all} nodes are not ready: with more than {limit} % of them (chart value "
        "failover.maxNodesNotReadyPercent) no worker is moved by force, as it may still run. Failover resumes "
        f"{resumes}. Check the network between the nodes and the API server",
    )


def moves(
    pods: Mapping[int, Object],
    outages: Mapping[str, Outage],
    *,
    patience: timedelta,
    now: datetime,
) -> Moves:
    """Choose the pods whose node has been out for `patience`.

    `patience` is spec.failover.nodeNotReadyAfter.

    `pods` are those that `unready_on_nodes` returns.
    """
    concerned = {
        partition: outages[name]
        for partition, pod in pods.items()
        if (name := node_of(pod)) is not None and name in outages
    }
    due = {p: out for p, out in concerned.items() if out.failover_time(patience) <= now}
    return Moves(due=due, later={p: out for p, out in concerned.items() if p not in due})


def was_fenced(pod: Object, worker: WorkerStatus | None, now: datetime) -> bool:
    """Return whether a pod's worker has been fenced by another one for a while.

    Kubernetes does not know the other one: it runs for example on a node that lost its network.
    """
    if worker is None or worker.reason != "Fenced" or pod["metadata"].get("deletionTimestamp"):
        return False
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        running = (container.get("state") or {}).get("running")
        if container["name"] == CONTAINER and running:
            return now - datetime.fromisoformat(running["startedAt"]) >= _FENCED_PATIENCE
    return False


def waits_for_volume(pod: Object, now: datetime) -> bool:
    """Return whether a pod had a node for a while but no container on it."""
    if is_ready(pod) or pod["metadata"].get("deletionTimestamp") or not node_of(pod):
        return False
    if now - datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) < _PATIENCE:
        return False
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        if container["name"] == CONTAINER:
            waiting = (container.get("state") or {}).get("waiting") or {}
            return bool(waiting.get("reason") == "ContainerCreating")
    return True


def stale_attachments(
    attachments: Sequence[Object],
    volumes: Mapping[int, str],
    pods: Mapping[int, Object],
) -> list[tuple[int, Object]]:
    """Return the attachments to nodes where their partition has no pod.

    Attachments that are being deleted are left out. `volumes` are the names of the partitions' PersistentVolumes,
    `pods` those that were not deleted in this pass.
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
    """Choose the stale attachments to nodes that have been out for `patience`."""
    chosen = []
    for partition, attachment in candidates:
        out = outages.get(attachment["spec"]["nodeName"])
        if out is not None and out.failover_time(patience) <= now:
            chosen.append(Detachment(partition=partition, attachment=attachment, outage=out))
    return chosen


def is_overdue(pod: Object, patience: timedelta, now: datetime) -> bool:
    """Return whether a deleted pod's node has not confirmed its end for `patience`."""
    ends = pod["metadata"].get("deletionTimestamp")
    return ends is not None and now - datetime.fromisoformat(ends) >= patience


def off(pod: Object) -> Problem:
    """Return the problem of a pod that only a person can move."""
    name, node = pod["metadata"]["name"], node_of(pod)
    return Problem(
        reason="FailoverOff",
        message=f"pod {name} was deleted, and node {node} does not confirm that it has ended; this operator runs "
        "without failover (chart values failover.enabled and rbac.clusterScope): make sure that the node is down, then "
        f"run kubectl delete pod {name} --force --grace-period=0",
    )


def problem(out: Outage, patience: timedelta, *, of: str = "worker") -> Problem:
    """Return the problem of a worker or router that stays on its node for now."""
    moved = out.failover_time(patience)
    return Problem(
        reason="NodeNotReady",
        message=f"node {out.node} {out.what} since {out.since:%H:%M:%SZ}; its {of} is moved to another node "
        f"at {moved:%H:%M:%SZ} (spec.failover.nodeNotReadyAfter) unless the node is ready again by then",
    )
