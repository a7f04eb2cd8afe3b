"""Moves workers away from nodes that are out: their pods are deleted by force, and their volumes let go."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dedupe_crds.status.stream import Failover as Record
from dedupe_operator import metrics
from dedupe_operator.controller.context import Findings, Look
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide import failover
from dedupe_operator.decide.diagnosis import with_advice
from dedupe_operator.decide.failover import Detachment, Outage
from dedupe_operator.decide.stream_status import Notice
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import ATTACHMENTS, CLAIMS, NODES, PODS, KubernetesApi


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a look is to do about nodes that are out. `nodes` are those it has read for that."""

    nodes: "Nodes"
    due: Mapping[int, Outage] = field(default_factory=dict)


class Failover:
    """Carries out what `decide.failover` chooses.

    First a `plan`, which is put on record with `findings.failovers`, then `act`. What an operator leaves undone that is
    killed in between, or between any two of its writes, another finds from what is there. Nothing is read while all
    pods are ready.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        # Since when nodes are gone: no object says it. Forgotten with this process, they get more time.
        self._missing: dict[Key, dict[str, datetime]] = {}

    def plan(self, look: Look, findings: Findings) -> Plan:
        """Find the workers that are due to be moved, and say of the others when they will be."""
        nodes = Nodes(self._api, look.now, self._missing.pop(_key(look), {}))
        pods = failover.in_doubt(look.observed.pods)
        patience = look.stream.spec.failover.node_not_ready_after
        try:
            outages = nodes.outages(filter(None, map(failover.node_of, pods.values())))
        except KubernetesError as error:
            findings.stream_problems.append(with_advice(error.reason, str(error)))
            return Plan(nodes=nodes)
        moves = failover.moves(pods, outages, patience=patience, now=look.now)
        for partition, outage in moves.later.items():
            findings.partition_problems[partition] = failover.problem(outage, patience)
            left = (outage.ends_patience(patience) - look.now).total_seconds()
            findings.look_again_within(left)
        for partition, outage in moves.due.items():
            reason = f"node {outage.node} {outage.what} since {outage.since:%Y-%m-%dT%H:%M:%SZ}"
            findings.failovers[partition] = Record(node=outage.node, reason=reason, time=look.now)
        return Plan(nodes=nodes, due=moves.due)

    def act(self, look: Look, findings: Findings, plan: Plan) -> None:
        """Move what is due. What the API server refuses is a problem of the stream, and keeps nothing else."""
        try:
            self._move(look, findings, plan)
            self._detach(look, findings, plan.nodes)
            self._replace_fenced(look, findings)
        except KubernetesError as error:
            findings.stream_problems.append(with_advice(error.reason, str(error)))
        if plan.nodes.missing:
            self._missing[_key(look)] = plan.nodes.missing

    def _move(self, look: Look, findings: Findings, plan: Plan) -> None:
        planned, findings.failovers = findings.failovers, {}
        for partition, outage in plan.due.items():
            pod = look.observed.pods[partition]
            self._api.delete(PODS, pod, by_force=True)
            findings.failovers[partition] = planned[partition]
            for_seconds = (look.now - outage.since).total_seconds()
            message = (
                f"Pod {pod['metadata']['name']} of partition {partition} was deleted by force to be made on "
                f"another node: {planned[partition].reason}, for {for_seconds:.0f} s."
            )
            findings.notices.append(Notice(reason="PodForceDeleted", message=message, warning=True))
            metrics.FAILOVERS.labels(*_key(look)).inc()

    def _detach(self, look: Look, findings: Findings, nodes: "Nodes") -> None:
        """Delete what attaches volumes to nodes that are out.

        Kubernetes waits six minutes for such a node to unmount them; this it notices within one.
        """
        left = {p: pod for p, pod in look.observed.pods.items() if p not in findings.failovers}
        waiting = any(failover.waits_for_its_volume(pod, look.now) for pod in left.values())
        if not findings.failovers and not waiting:
            return
        attachments = self._api.find(ATTACHMENTS, None)
        candidates = failover.elsewhere(attachments, _volumes(look, findings), left)
        outages = nodes.outages(one["spec"]["nodeName"] for _, one in candidates)
        patience = look.stream.spec.failover.node_not_ready_after
        for one in failover.detachments(candidates, outages, patience=patience, now=look.now):
            self._api.delete(ATTACHMENTS, one.attachment)
            findings.notices.append(_detached(one))

    def _replace_fenced(self, look: Look, findings: Findings) -> None:
        """Delete pods that stand by, for others to take over again."""
        for partition, pod in look.observed.pods.items():
            moved = partition in findings.failovers
            if moved or not failover.was_fenced(pod, look.workers.get(partition), look.now):
                continue
            self._api.delete(PODS, pod)
            message = (
                f"Pod {pod['metadata']['name']} was deleted to take over again: a worker that Kubernetes does "
                f"not know of had taken partition {partition} over from it."
            )
            findings.notices.append(
                Notice(reason="FencedPodReplaced", message=message, warning=True)
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


def _key(look: Look) -> Key:
    return Key(look.stream.metadata.namespace, look.stream.metadata.name)


def _volumes(look: Look, findings: Findings) -> dict[int, str]:
    """The PersistentVolumes of the partitions' claims."""
    claims = {
        partition: look.observed.children.get((CLAIMS.kind, choice.name))
        for partition, choice in findings.claims.items()
    }
    return {
        partition: volume
        for partition, claim in claims.items()
        if claim is not None and (volume := claim["spec"].get("volumeName"))
    }


def _detached(one: Detachment) -> Notice:
    volume = one.attachment["spec"]["source"]["persistentVolumeName"]
    message = (
        f"Volume {volume} of partition {one.partition} was detached from node {one.outage.node}, which "
        f"{one.outage.what}."
    )
    return Notice(reason="VolumeDetached", message=message, warning=True)
