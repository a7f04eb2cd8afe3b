"""The controllers beside the operator: each does one round of its work when the world lets it.

StatefulSets, scheduler, volume binder, snapshot controller, attacher, kubelets, node lifecycle, garbage collector.
"""

import json
import re
from datetime import datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Final

from dedupe_crds.quantity import parse_size
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.kubernetes.names import Object, partition_of
from dedupe_operator.kubernetes.resources import (
    ATTACHMENTS,
    CLAIMS,
    NODES,
    PODS,
    STATEFUL_SETS,
    VOLUME_SNAPSHOTS,
)
from dedupe_operator.resources import config_map
from tests.operator_simulation.bystanders import VOLUME_OF_OTHERS
from tests.operator_simulation.cluster import SimCluster, claims_of
from tests.operator_simulation.ec2 import IN_ZONE, SimEc2
from tests.operator_simulation.stores import Copy, Matter, Process, Volume
from tests.unit.operator.objects import NAMESPACE, attachment, node

NODE_NAMES: Final = ("node-1", "node-2", "node-3")
NOT_READY_AFTER: Final = timedelta(seconds=40)
DETACHED_AFTER: Final = timedelta(seconds=360)
_VOLUME: Final = "pv-"


class Controllers:
    """All controllers of the simulated cluster, and its nodes.

    `dark` are nodes without power, `cut_off` those without network, each since when. `bad_images` can't be pulled.
    """

    def __init__(self, cluster: SimCluster, matter: Matter, ec2: SimEc2 | None = None) -> None:
        self._cluster = cluster
        self._ec2 = ec2
        self._matter = matter
        self.dark: dict[str, datetime] = {}
        self.cut_off: dict[str, datetime] = {}
        self.bad_images: set[str] = set()
        for name in NODE_NAMES:
            self.add_node(name)

    def add_node(self, name: str) -> None:
        """Add a node, with a zone if volumes have one."""
        made = node(name, since=self._cluster.now)
        made["metadata"]["labels"] = IN_ZONE if self._ec2 else {}
        made["spec"] = {}
        self._cluster.put(made)

    def act(self, random: Random, slow: float) -> None:
        """Do a round; each controller is too slow for it with this probability."""
        for controller in (
            self._collect_garbage,
            self._watch_nodes,
            self._control_sets,
            self._schedule,
            self._bind,
            self._copy_volumes,
            self._attach,
            self._run_pods,
        ):
            if random.random() >= slow:
                controller()
        self._end_lost_processes()
        self._matter.work()

    def _collect_garbage(self) -> None:
        cluster = self._cluster
        uids = {one["metadata"]["uid"] for one in cluster.objects.values()}
        for (kind, name), one in list(cluster.objects.items()):
            owners = one["metadata"].get("ownerReferences") or []
            if owners and not uids & {owner["uid"] for owner in owners}:
                cluster.delete_as_user(kind, name)
        mounted = {name for pod in cluster.of_kind(PODS.kind) for name in claims_of(pod)}
        for claim in cluster.of_kind(CLAIMS.kind):
            name = claim["metadata"]["name"]
            if claim["metadata"].get("deletionTimestamp") and name not in mounted:
                cluster.remove(CLAIMS.kind, name)
        claims = {one["metadata"]["uid"] for one in cluster.of_kind(CLAIMS.kind)}
        if self._ec2:
            self._ec2.collect()
        for name, volume in list(self._matter.volumes.items()):
            if volume.claim_uid not in claims:
                del self._matter.volumes[name]
                self._matter.attached.pop(name, None)

    def is_out(self, name: str) -> bool:
        """Return whether the API server hears nothing of a node."""
        return name in self.dark or name in self.cut_off

    def _watch_nodes(self) -> None:
        cluster, now = self._cluster, self._cluster.now
        for name in NODE_NAMES:
            live = cluster.objects.get((NODES.kind, name))
            if live is None:
                continue
            since = min(filter(None, (self.dark.get(name), self.cut_off.get(name))), default=now)
            status = "Unknown" if now - since > NOT_READY_AFTER else "True"
            if live["status"]["conditions"][-1]["status"] != status:
                fresh = node(name, status=status, since=now)
                cluster.change(NODES.kind, name, status=fresh["status"])
            if status != "True":
                for pod in cluster.of_kind(PODS.kind):
                    if pod["spec"].get("nodeName") == name and is_ready(pod):
                        self._set_ready(pod, ready=False)

    def _set_ready(self, pod: Object, *, ready: bool, **status: object) -> None:
        condition = [{"type": "Ready", "status": str(ready)}]
        wanted = {**pod.get("status", {}), "conditions": condition, **status}
        if wanted != pod.get("status"):
            self._cluster.change(PODS.kind, pod["metadata"]["name"], status=wanted)

    def _control_sets(self) -> None:
        cluster = self._cluster
        for live in cluster.of_kind(STATEFUL_SETS.kind):
            name, template = live["metadata"]["name"], live["spec"]["template"]
            text = json.dumps(template, sort_keys=True)
            revision = sha256(text.encode()).hexdigest()[:10]
            generation = live["metadata"]["generation"]
            status = {"observedGeneration": generation, "updateRevision": revision}
            if live.get("status") != status:
                cluster.change(STATEFUL_SETS.kind, name, status=status)
            pod = cluster.objects.get((PODS.kind, f"{name}-0"))
            if pod is None and live["spec"]["replicas"]:
                self._create_pod(live, revision)
            elif pod is not None and not pod["metadata"].get("deletionTimestamp"):
                old = pod["metadata"]["labels"]["controller-revision-hash"] != revision
                # It never replaces a pod that is not ready.
                if not live["spec"]["replicas"] or (old and is_ready(pod)):
                    cluster.delete_as_user(PODS.kind, f"{name}-0")

    def _create_pod(self, live: Object, revision: str) -> None:
        template, metadata = live["spec"]["template"], live["metadata"]
        owner = {"kind": live["kind"], "name": metadata["name"], "uid": metadata["uid"]}
        self._cluster.put(
            {
                "apiVersion": "v1",
                "kind": PODS.kind,
                "metadata": {
                    "name": f"{metadata['name']}-0",
                    "namespace": NAMESPACE,
                    "labels": {
                        **template["metadata"]["labels"],
                        "controller-revision-hash": revision,
                    },
                    "annotations": template["metadata"]["annotations"],
                    "ownerReferences": [owner],
                },
                "spec": template["spec"],
                "status": {"conditions": []},
            }
        )

    def _schedule(self) -> None:
        cluster = self._cluster
        pods = cluster.of_kind(PODS.kind)
        ready = [
            each["metadata"]["name"]
            for each in cluster.of_kind(NODES.kind)
            if each["status"]["conditions"][-1]["status"] == "True"
        ]
        for pod in pods:
            if pod["spec"].get("nodeName") or not ready:
                continue
            placed = [each["spec"].get("nodeName") for each in cluster.of_kind(PODS.kind)]
            chosen = min(ready, key=lambda each: (placed.count(each), each))
            name = pod["metadata"]["name"]
            cluster.change(PODS.kind, name, spec={**pod["spec"], "nodeName": chosen})

    def _bind(self) -> None:
        for claim in self._cluster.of_kind(CLAIMS.kind):
            name, wanted = claim["metadata"]["name"], claim["spec"]["resources"]["requests"]
            if claim["spec"].get("volumeName"):
                volume = self._matter.volumes.get(claim["spec"]["volumeName"])
                if volume and parse_size(volume.capacity) < parse_size(wanted["storage"]):
                    volume.capacity = wanted["storage"]
                if volume is None and self._ec2:
                    self._bind_named(claim, self._ec2)
                continue
            store = None
            if source := claim["spec"].get("dataSource"):
                found = self._cluster.objects.get((VOLUME_SNAPSHOTS.kind, source["name"]))
                copy = self._matter.copies.get(found["metadata"]["uid"]) if found else None
                if copy is None or not copy.ready:
                    if "status" not in claim:
                        self._cluster.change(CLAIMS.kind, name, status={"phase": "Pending"})
                    continue
                store = copy.store
            uid = claim["metadata"]["uid"]
            volume_name = f"{_VOLUME}{uid}"
            self._matter.volumes[volume_name] = Volume(uid, wanted["storage"], store)
            if self._ec2:
                self._ec2.provision(claim, volume_name)
            spec = {"storageClassName": "default", **claim["spec"], "volumeName": volume_name}
            self._cluster.change(CLAIMS.kind, name, spec=spec, status={"phase": "Bound"})

    def _bind_named(self, claim: Object, ec2: SimEc2) -> None:
        """Bind a claim that names its volume, once that is there."""
        phase = claim.get("status", {}).get("phase")
        wanted = "Bound" if phase == "Bound" or ec2.bind(claim) else "Pending"
        if wanted != phase:
            self._cluster.change(CLAIMS.kind, claim["metadata"]["name"], status={"phase": wanted})

    def _copy_volumes(self) -> None:
        cluster, copies = self._cluster, self._matter.copies
        live = {each["metadata"]["uid"]: each for each in cluster.of_kind(VOLUME_SNAPSHOTS.kind)}
        for uid in list(copies):
            if uid not in live:
                del copies[uid]
        for uid, found in live.items():
            if uid in copies:
                copies[uid].ready = True
                status = {"readyToUse": True, "restoreSize": "20Gi"}
                if found.get("status") != status:
                    cluster.change(VOLUME_SNAPSHOTS.kind, found["metadata"]["name"], status=status)
                continue
            claim = cluster.objects.get(
                (CLAIMS.kind, found["spec"]["source"]["persistentVolumeClaimName"])
            )
            volume = self._matter.volumes.get((claim or {}).get("spec", {}).get("volumeName", ""))
            if volume and volume.store:
                copies[uid] = Copy(volume.store, cluster.now)

    def _attach(self) -> None:
        cluster, attached = self._cluster, self._matter.attached
        wanted = {
            volume: pod["spec"]["nodeName"]
            for pod in cluster.of_kind(PODS.kind)
            if pod["spec"].get("nodeName") and (volume := self._volume_of(pod))
        }
        used = {(each.volume, each.node) for each in self._matter.processes.values()}
        for live in cluster.of_kind(ATTACHMENTS.kind):
            volume = live["spec"]["source"]["persistentVolumeName"]
            where = live["spec"]["nodeName"]
            if volume == VOLUME_OF_OTHERS:
                continue
            if wanted.get(volume) == where and not live["metadata"].get("deletionTimestamp"):
                continue
            since = self.dark.get(where) or self.cut_off.get(where)
            unmounted = not self.is_out(where) and (volume, where) not in used
            if unmounted or (since and cluster.now - since > DETACHED_AFTER):
                cluster.remove(ATTACHMENTS.kind, live["metadata"]["name"])
        held = {
            each["spec"]["source"]["persistentVolumeName"]: each["spec"]["nodeName"]
            for each in cluster.of_kind(ATTACHMENTS.kind)
        }
        for volume, where in wanted.items():
            if volume not in held:
                cluster.put(attachment(volume, to=where))
                held[volume] = where
        attached.clear()
        attached.update(held)

    def _volume_of(self, pod: Object) -> str | None:
        for name in claims_of(pod):
            claim = self._cluster.objects.get((CLAIMS.kind, name))
            volume = (claim or {}).get("spec", {}).get("volumeName")
            if volume in self._matter.volumes:
                return str(volume)
        return None

    def _run_pods(self) -> None:
        cluster, processes = self._cluster, self._matter.processes
        pods = {pod["metadata"]["uid"]: pod for pod in cluster.of_kind(PODS.kind)}
        for uid, process in list(processes.items()):
            if uid not in pods and not self.is_out(process.node):
                del processes[uid]
        for uid, pod in pods.items():
            where = pod["spec"].get("nodeName")
            if where is None or self.is_out(where) or (NODES.kind, where) not in cluster.objects:
                continue
            if pod["metadata"].get("deletionTimestamp"):
                processes.pop(uid, None)
                cluster.remove(PODS.kind, pod["metadata"]["name"])
            elif uid in processes:
                process = processes[uid]
                process.ready = process.download_failed is None
                self._set_ready(pod, ready=process.ready)
            else:
                self._start(pod, where)

    def _start(self, pod: Object, where: str) -> None:
        its = pod["spec"]["containers"][0]
        if its["image"] in self.bad_images:
            waiting = {"reason": "ErrImagePull", "message": "not found"}
            container = {"name": its["name"], "image": its["image"], "state": {"waiting": waiting}}
            self._set_ready(pod, ready=False, containerStatuses=[container])
            return
        volume = self._volume_of(pod)
        if volume is None or self._matter.attached.get(volume) != where:
            return
        if any(each.volume == volume for each in self._matter.processes.values()):
            return  # its predecessor on this node is still to be ended
        partition = partition_of(pod) or 0
        options = dict(each.partition("=")[::2] for each in its["args"])
        bucket, snapshot = self._bucket_of(pod), options.get("--restore-from")
        source = (_restore_bucket(its) or bucket, snapshot) if snapshot else None
        failed = self._matter.start_store(self._matter.volumes[volume], partition, source)
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        self._matter.processes[uid] = Process(
            *(name, where, partition, volume, self._cluster.now),
            bucket=bucket,
            download_failed=failed,
        )
        running = {"running": {"startedAt": self._cluster.now.isoformat()}}
        container = {"name": its["name"], "image": its["image"], "state": running}
        self._set_ready(pod, ready=False, podIP="10.0.0.1", containerStatuses=[container])

    def _bucket_of(self, pod: Object) -> str:
        """Return the bucket in the manifest that a pod mounts."""
        config = self._cluster.objects.get(("ConfigMap", config_map.mounted(pod) or ""), {})
        manifest = str(config.get("data", {}).get(config_map.MANIFEST_KEY))
        found = re.search(r"^ +bucket: (\S+)$", manifest, re.MULTILINE)
        return found[1] if found else ""

    def _end_lost_processes(self) -> None:
        """End the processes of nodes without power, and those whose volume was taken away."""
        held = {
            each["spec"]["source"]["persistentVolumeName"]: each["spec"]["nodeName"]
            for each in self._cluster.of_kind(ATTACHMENTS.kind)
        }
        for uid, process in list(self._matter.processes.items()):
            gone = process.volume not in self._matter.volumes
            if gone or process.node in self.dark or held.get(process.volume) != process.node:
                del self._matter.processes[uid]
        for pod in self._cluster.of_kind(PODS.kind):
            lost = pod["metadata"]["uid"] not in self._matter.processes
            if lost and is_ready(pod) and not self.is_out(pod["spec"].get("nodeName", "")):
                self._set_ready(pod, ready=False)


def _restore_bucket(container: Object) -> str:
    """Return the bucket that a container's snapshot is in, if not in that of its manifest."""
    variables = {each["name"]: each["value"] for each in container.get("env", ())}
    location = json.loads(variables.get("DEDUPE_WORKER_RESTORE_LOCATION", "{}"))
    return str(location.get("bucket", ""))
