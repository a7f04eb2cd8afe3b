"""Fail over from nodes that are out: force-delete pods, delete VolumeAttachments.

The reconciler calls `plan` before the claims are chosen and `act` after the plan is in the status. `decide.failover`
decides, this module carries out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dedupe_crds.status.stream import Failover as FailoverRecord
from dedupe_operator import metrics
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide import failover
from dedupe_operator.decide.diagnosis import with_advice
from dedupe_operator.decide.failover import Detachment, Outage
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.decide.volume_claims import is_bound
from dedupe_operator.errors import KubernetesError
from dedupe_operator.failover_brake import FailoverBrake
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.resources import ATTACHMENTS, CLAIMS, NODES, PODS


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """Failovers that are due in this pass, and the nodes that were read for it.

    `routers` are those of routers: a StatefulSet does not replace a pod on a node that is out.
    """

    nodes: "Nodes"
    due: Mapping[int, Outage] = field(default_factory=dict)
    routers: Mapping[int, Outage] = field(default_factory=dict)


class Failover:
    """Carries out what `decide.failover` chooses.

    The plan is recorded in the status (`result.failovers`) before `act`. If the operator is killed between two writes,
    the next one finds the rest from the state of the cluster. No node is read while all pods are ready.
    """

    def __init__(self, api: KubernetesApi, brake: FailoverBrake, *, enabled: bool = True) -> None:
        self._api = api
        self._brake = brake
        self._enabled = enabled
        # Since when nodes do not exist: no object records it. After a restart of the process the time starts again.
        self._missing: dict[Key, dict[str, datetime]] = {}

    def plan(self, context: ReconcileContext, result: ReconcileResult) -> FailoverPlan:
        """Find the workers to move now; report when the others on such nodes are moved."""
        nodes = Nodes(self._api, context.now, dict(self._missing.get(context.key, {})))
        if not self._enabled:
            _report_overdue(context, result)
            return FailoverPlan(nodes=nodes)
        pods = failover.unready_on_nodes(context.observed.pods)
        routers = failover.unready_on_nodes(context.observed.routers)
        patience = context.stream.spec.failover.node_not_ready_after
        concerned = [*pods.values(), *routers.values()]
        try:
            outages = nodes.outages(filter(None, map(failover.node_of, concerned)))
            of_workers, of_routers = (
                failover.moves(each, outages, patience=patience, now=context.now)
                for each in (pods, routers)
            )
            due = {**of_workers.due, **of_routers.due}
            held = self._brake.problem(patience, context.now) if due else None
        except KubernetesError as error:
            result.stream_problems.append(with_advice(error.reason, str(error)))
            return FailoverPlan(nodes=nodes)
        for partition, outage in of_workers.later.items():
            result.partition_problems[partition] = failover.problem(outage, patience)
            _look_again(context, result, outage)
        for router, outage in of_routers.later.items():
            result.router_problems[router] = failover.problem(outage, patience, of="router")
            _look_again(context, result, outage)
        held_workers = len(of_workers.due) if held else 0
        metrics.FAILOVERS_HELD_BACK.labels(*context.key).set(held_workers)
        if held:
            result.partition_problems |= dict.fromkeys(of_workers.due, held)
            result.router_problems |= dict.fromkeys(of_routers.due, held)
            return FailoverPlan(nodes=nodes)
        for partition, outage in of_workers.due.items():
            reason = f"node {outage.node} {outage.what} since {outage.since:%Y-%m-%dT%H:%M:%SZ}"
            result.failovers[partition] = FailoverRecord(
                node=outage.node, reason=reason, time=context.now
            )
        return FailoverPlan(nodes=nodes, due=of_workers.due, routers=of_routers.due)

    def act(self, context: ReconcileContext, result: ReconcileResult, plan: FailoverPlan) -> None:
        """Carry out the plan. An error of the API server becomes a problem of the stream."""
        try:
            self._move(context, result, plan)
            self._move_routers(context, result, plan)
            if self._enabled:
                self._detach(context, result, plan.nodes)
            self._replace_fenced(context, result)
        except KubernetesError as error:
            result.stream_problems.append(with_advice(error.reason, str(error)))
        if plan.nodes.missing:
            self._missing[context.key] = plan.nodes.missing

    def _move(self, context: ReconcileContext, result: ReconcileResult, plan: FailoverPlan) -> None:
        planned, result.failovers = result.failovers, {}
        for partition, outage in plan.due.items():
            pod = context.observed.pods[partition]
            self._api.delete(PODS, pod, force=True)
            result.failovers[partition] = planned[partition]
            for_seconds = (context.now - outage.since).total_seconds()
            message = (
                f"Pod {pod['metadata']['name']} of partition {partition} was force-deleted to be created on "
                f"another node: {planned[partition].reason}, for {for_seconds:.0f} s."
            )
            result.events.append(
                StreamEvent(reason="PodForceDeleted", message=message, warning=True)
            )
            metrics.FAILOVERS.labels(*context.key).inc()

    def _move_routers(
        self, context: ReconcileContext, result: ReconcileResult, plan: FailoverPlan
    ) -> None:
        """Force-delete routers: Kafka fences one that still runs by its successor."""
        for router, outage in plan.routers.items():
            pod = context.observed.routers[router]
            self._api.delete(PODS, pod, force=True)
            message = (
                f"Pod {pod['metadata']['name']} was force-deleted to be created on another node: node {outage.node} "
                f"{outage.what}."
            )
            result.events.append(
                StreamEvent(reason="PodForceDeleted", message=message, warning=True)
            )
            metrics.FAILOVERS.labels(*context.key).inc()

    def _detach(self, context: ReconcileContext, result: ReconcileResult, nodes: "Nodes") -> None:
        """Delete the VolumeAttachments of nodes that are out.

        Kubernetes waits six minutes for such a node to unmount its volumes; a deletion takes effect within one.
        """
        left = {p: pod for p, pod in context.observed.pods.items() if p not in result.failovers}
        waiting = any(failover.waits_for_volume(pod, context.now) for pod in left.values())
        if not result.failovers and not waiting:
            return
        attachments = self._api.find(ATTACHMENTS, None)
        candidates = failover.stale_attachments(attachments, _volumes(context, result), left)
        outages = nodes.outages(attachment["spec"]["nodeName"] for _, attachment in candidates)
        patience = context.stream.spec.failover.node_not_ready_after
        detachments = failover.detachments(candidates, outages, patience=patience, now=context.now)
        if not detachments or self._brake.problem(patience, context.now):
            return
        for due in detachments:
            self._api.delete(ATTACHMENTS, due.attachment)
            result.events.append(_detached(due))

    def _replace_fenced(self, context: ReconcileContext, result: ReconcileResult) -> None:
        """Delete fenced pods, so that their successors take the partition over again."""
        for partition, pod in context.observed.pods.items():
            moved = partition in result.failovers
            if moved or not failover.was_fenced(pod, context.workers.get(partition), context.now):
                continue
            self._api.delete(PODS, pod)
            message = (
                f"Pod {pod['metadata']['name']} was deleted to take over again: a worker unknown to "
                f"Kubernetes had fenced it on partition {partition}."
            )
            result.events.append(
                StreamEvent(reason="FencedPodReplaced", message=message, warning=True)
            )


class Nodes:
    """The nodes read in one pass, each once.

    `missing` are the nodes that do not exist, with the time when that was first observed.
    """

    def __init__(
        self, api: KubernetesApi, now: datetime, missing_before: dict[str, datetime]
    ) -> None:
        self._api = api
        self._now = now
        self._missing_before = missing_before
        self._found: dict[str, Outage | None] = {}
        self.missing: dict[str, datetime] = {}

    def outages(self, names: Iterable[str]) -> dict[str, Outage]:
        """Return the outages of those nodes that are out, by name. Raises KubernetesError."""
        asked = set(names)
        for name in asked - self._found.keys():
            self._found[name] = self._read(name)
        return {name: out for name in asked if (out := self._found[name]) is not None}

    def _read(self, name: str) -> Outage | None:
        node = self._api.get(NODES, None, name)
        since = self._missing_before.get(name, self._now)
        if node is None:
            self.missing[name] = since
        return failover.outage(name, node, missing_since=since)


def _report_overdue(context: ReconcileContext, result: ReconcileResult) -> None:
    """Report the pods that a person must delete by force, because no failover does."""
    patience = context.stream.spec.failover.node_not_ready_after
    for pods, problems in (
        (context.observed.pods, result.partition_problems),
        (context.observed.routers, result.router_problems),
    ):
        for number, pod in pods.items():
            if failover.is_overdue(pod, patience, context.now):
                problems[number] = failover.off(pod)


def _look_again(context: ReconcileContext, result: ReconcileResult, outage: Outage) -> None:
    """Have the next pass come when the failover is due."""
    due = outage.failover_time(context.stream.spec.failover.node_not_ready_after)
    result.requeue_within((due - context.now).total_seconds())


def _volumes(context: ReconcileContext, result: ReconcileResult) -> dict[int, str]:
    """Return the names of the PersistentVolumes of the partitions' claims.

    Of bound claims only: whoever creates a claim may name another tenant's volume in it.
    """
    claims = {
        partition: context.observed.children.get((CLAIMS.kind, choice.name))
        for partition, choice in result.claims.items()
    }
    return {
        partition: volume
        for partition, claim in claims.items()
        if claim is not None and is_bound(claim) and (volume := claim["spec"].get("volumeName"))
    }


def _detached(detachment: Detachment) -> StreamEvent:
    volume = detachment.attachment["spec"]["source"]["persistentVolumeName"]
    message = (
        f"Volume {volume} of partition {detachment.partition} was detached from node "
        f"{detachment.outage.node}, which {detachment.outage.what}."
    )
    return StreamEvent(reason="VolumeDetached", message=message, warning=True)
