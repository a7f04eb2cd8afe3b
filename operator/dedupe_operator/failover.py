"""Moves workers away from nodes that are out: their pods are deleted by force, and their volumes let go."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dedupe_crds.status.stream import Failover as Record
from dedupe_operator import metrics
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide import failover
from dedupe_operator.decide.diagnosis import with_advice
from dedupe_operator.decide.failover import Detachment, Outage
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.resources import ATTACHMENTS, CLAIMS, NODES, PODS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a look is to do about nodes that are out. `nodes` are those it has read for that."""

    nodes: "Nodes"
    due: Mapping[int, Outage] = field(default_factory=dict)


class Failover:
    """Carries out what `decide.failover` chooses.

    First a `plan`, which is put on record with `result.failovers`, then `act`. What an operator leaves undone that is
    killed in between, or between any two of its writes, another finds from what is there. Nothing is read while all
    pods are ready.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        # Since when nodes are gone: no object says it. Forgotten with this process, they get more time.
        self._missing: dict[Key, dict[str, datetime]] = {}

    def plan(self, context: ReconcileContext, result: ReconcileResult) -> Plan:
        """Find the workers that are due to be moved, and say of the others when they will be."""
        nodes = Nodes(self._api, context.now, self._missing.pop(_key(context), {}))
        pods = failover.unready_on_nodes(context.observed.pods)
        patience = context.stream.spec.failover.node_not_ready_after
        try:
            outages = nodes.outages(filter(None, map(failover.node_of, pods.values())))
        except KubernetesError as error:
            result.stream_problems.append(with_advice(error.reason, str(error)))
            return Plan(nodes=nodes)
        moves = failover.moves(pods, outages, patience=patience, now=context.now)
        for partition, outage in moves.later.items():
            result.partition_problems[partition] = failover.problem(outage, patience)
            left = (outage.failover_time(patience) - context.now).total_seconds()
            result.requeue_within(left)
        for partition, outage in moves.due.items():
            reason = f"node {outage.node} {outage.what} since {outage.since:%Y-%m-%dT%H:%M:%SZ}"
            result.failovers[partition] = Record(node=outage.node, reason=reason, time=context.now)
        return Plan(nodes=nodes, due=moves.due)

    def act(self, context: ReconcileContext, result: ReconcileResult, plan: Plan) -> None:
        """Move what is due. What the API server refuses is a problem of the stream, and keeps nothing else."""
        try:
            self._move(context, result, plan)
            self._detach(context, result, plan.nodes)
            self._replace_fenced(context, result)
        except KubernetesError as error:
            result.stream_problems.append(with_advice(error.reason, str(error)))
        if plan.nodes.missing:
            self._missing[_key(context)] = plan.nodes.missing

    def _move(self, context: ReconcileContext, result: ReconcileResult, plan: Plan) -> None:
        planned, result.failovers = result.failovers, {}
        for partition, outage in plan.due.items():
            pod = context.observed.pods[partition]
            self._api.delete(PODS, pod, force=True)
            result.failovers[partition] = planned[partition]
            for_seconds = (context.now - outage.since).total_seconds()
            message = (
                f"Pod {pod['metadata']['name']} of partition {partition} was deleted by force to be made on "
                f"another node: {planned[partition].reason}, for {for_seconds:.0f} s."
            )
            result.events.append(
                StreamEvent(reason="PodForceDeleted", message=message, warning=True)
            )
            metrics.FAILOVERS.labels(*_key(context)).inc()

    def _detach(self, context: ReconcileContext, result: ReconcileResult, nodes: "Nodes") -> None:
        """Delete what attaches volumes to nodes that are out.

        Kubernetes waits six minutes for such a node to unmount them; this it notices within one.
        """
        left = {p: pod for p, pod in context.observed.pods.items() if p not in result.failovers}
        waiting = any(failover.waits_for_volume(pod, context.now) for pod in left.values())
        if not result.failovers and not waiting:
            return
        attachments = self._api.find(ATTACHMENTS, None)
        candidates = failover.elsewhere(attachments, _volumes(context, result), left)
        outages = nodes.outages(one["spec"]["nodeName"] for _, one in candidates)
        patience = context.stream.spec.failover.node_not_ready_after
        for one in failover.detachments(candidates, outages, patience=patience, now=context.now):
            self._api.delete(ATTACHMENTS, one.attachment)
            result.events.append(_detached(one))

    def _replace_fenced(self, context: ReconcileContext, result: ReconcileResult) -> None:
        """Delete pods that stand by, for others to take over again."""
        for partition, pod in context.observed.pods.items():
            moved = partition in result.failovers
            if moved or not failover.was_fenced(pod, context.workers.get(partition), context.now):
                continue
            self._api.delete(PODS, pod)
            message = (
                f"Pod {pod['metadata']['name']} was deleted to take over again: a worker that Kubernetes does "
                f"not know of had taken partition {partition} over from it."
            )
            result.events.append(
                StreamEvent(reason="FencedPodReplaced", message=message, warning=True)
            )


class Nodes:
    """The nodes asked for in one look, each read once. `missing` are those there are not, and since when."""

    def __init__(
        self, api: KubernetesApi, now: datetime, missing_before: dict[str, datetime]
    ) -> None:
        self._api = api
        self._now = now
        self._missing_before = missing_before
        self._found: dict[str, Outage | None] = {}
        self.missing: dict[str, datetime] = {}

    def outages(self, names: Iterable[str]) -> dict[str, Outage]:
        """Those of them that are out, by name. Raises KubernetesError."""
        asked = set(names)
        for name in asked - self._found.keys():
            self._found[name] = self._look_at(name)
        return {name: out for name in asked if (out := self._found[name]) is not None}

    def _look_at(self, name: str) -> Outage | None:
        node = self._api.get(NODES, None, name)
        since = self._missing_before.get(name, self._now)
        if node is None:
            self.missing[name] = since
        return failover.outage(name, node, missing_since=since)


def _key(context: ReconcileContext) -> Key:
    return Key(context.stream.metadata.namespace, context.stream.metadata.name)


def _volumes(context: ReconcileContext, result: ReconcileResult) -> dict[int, str]:
    """The PersistentVolumes of the partitions' claims."""
    claims = {
        partition: context.observed.children.get((CLAIMS.kind, choice.name))
        for partition, choice in result.claims.items()
    }
    return {
        partition: volume
        for partition, claim in claims.items()
        if claim is not None and (volume := claim["spec"].get("volumeName"))
    }


def _detached(one: Detachment) -> StreamEvent:
    volume = one.attachment["spec"]["source"]["persistentVolumeName"]
    message = (
        f"Volume {volume} of partition {one.partition} was detached from node {one.outage.node}, which "
        f"{one.outage.what}."
    )
    return StreamEvent(reason="VolumeDetached", message=message, warning=True)
