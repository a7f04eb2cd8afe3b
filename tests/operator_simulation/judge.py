"""The judge: what the operator must never do, and where a stream must arrive.

It knows the world as it is, and shares no decision with the operator's code. Its patience with an operator that read
an old view: what changed within the last rounds may not have been seen yet.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from dedupe_crds.annotations import PARTITION, STREAM
from dedupe_crds.spec.stream import GROUP
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import (
    ATTACHMENTS,
    CLAIMS,
    NODES,
    PARTITIONS,
    PODS,
    SNAPSHOTS,
    STATEFUL_SETS,
    STREAMS,
    VOLUME_SNAPSHOTS,
)
from tests.operator_simulation.cluster import SimCluster, claims_of, recorded_partitions
from tests.operator_simulation.ec2 import SimEc2
from tests.operator_simulation.stores import Copy, Matter
from tests.unit.operator import objects
from tests.unit.operator.fake_cluster import Address

NODE_PATIENCE: Final = timedelta(seconds=60)
"""The simulated streams' spec.failover.nodeNotReadyAfter, its default."""
SNAPSHOT_TAG: Final = f"{GROUP}/snapshot"
_REVISION: Final = "controller-revision-hash"
_MAY_DELETE: Final = {
    PARTITIONS.kind,
    PODS.kind,
    ATTACHMENTS.kind,
    VOLUME_SNAPSHOTS.kind,
    SNAPSHOTS.kind,
    STATEFUL_SETS.kind,
}


class Judge:
    """Collects defects, each as `kind: text`."""

    def __init__(self, matter: Matter) -> None:
        self.defects: list[str] = []
        self.matter = matter
        self.cluster: SimCluster | None = None
        self.asked_for: set[int] = set()
        self.changed_ready: set[str] = set()
        self.abandoned: set[str] = set()
        self.excused = False
        self.ec2: SimEc2 | None = None

    def tell(self, kind: str, text: str) -> None:
        """Add a defect that an old view does not excuse."""
        if not self.excused:
            self.add(kind, text)

    def begin_pass(self, *, excused: bool) -> None:
        """Begin a pass. `excused`: it may read old views, so some rules can't hold."""
        self.changed_ready = set()
        self.excused = excused

    def add(self, kind: str, text: str) -> None:
        line = f"{kind}: {text}"
        if line not in self.defects:
            self.defects.append(line)

    def written(
        self, how: str, kind: str, name: str, before: Object | None, after: Object | None
    ) -> None:
        """Judge a write of the operator."""
        rules: dict[tuple[str, str], Callable[[str, Object | None, Object | None], None]] = {
            ("force-delete", PODS.kind): self._forced,
            ("delete", ATTACHMENTS.kind): self._detached,
            ("delete", SNAPSHOTS.kind): self._pruned,
            ("apply", STATEFUL_SETS.kind): self._rolled,
            ("apply-status", STREAMS.kind): partial(self._recorded, STREAMS.kind),
            ("apply", PARTITIONS.kind): partial(self._recorded, PARTITIONS.kind),
            ("delete", PARTITIONS.kind): partial(self._recorded, PARTITIONS.kind),
            ("apply", CLAIMS.kind): self._claimed,
        }
        is_delete = how in {"delete", "force-delete"}
        if is_delete and before is not None:
            if kind not in _MAY_DELETE:
                self.add("deleted", f"{kind} {name}")
            if how == "force-delete" and kind != PODS.kind:
                self.add("forced", f"{kind} {name}")
        if rule := rules.get((how, kind)):
            rule(name, before, after)

    def _live(self) -> SimCluster:
        assert self.cluster is not None
        return self.cluster

    def _is_out(self, name: str) -> bool:
        """Return whether a node has been out for as long as the spec says."""
        node = self._live().objects.get((NODES.kind, name))
        if node is None or self.excused:
            return True
        ready = node["status"]["conditions"][-1]
        since = datetime.fromisoformat(ready["lastTransitionTime"])
        return bool(ready["status"] != "True") and self._live().now - since >= NODE_PATIENCE

    def _forced(self, name: str, before: Object | None, _: Object | None) -> None:
        if before is not None and not self._is_out(before["spec"].get("nodeName", "")):
            self.add("forced", f"pod {name} of a node that is not out")

    def _detached(self, name: str, before: Object | None, _: Object | None) -> None:
        if before is None:
            return
        where, volume = before["spec"]["nodeName"], before["spec"]["source"]["persistentVolumeName"]
        if not self._is_out(where):
            self.add("detached", f"{name} of a node that is not out")
        if volume not in self.matter.volumes and not self.excused:
            self.add("detached", f"{name}, a volume of others")

    def _pruned(self, name: str, before: Object | None, _: Object | None) -> None:
        labels = (before or {}).get("metadata", {}).get("labels") or {}
        if before is not None and not any("scheduled" in each for each in labels):
            self.add("pruned", f"snapshot {name} of a user")

    def _rolled(self, name: str, before: Object | None, after: Object | None) -> None:
        """Judge that ready workers change one at a time, while all others are ready."""
        if before is None or after is None or before["spec"] == after["spec"]:
            return
        if not before["spec"]["replicas"] or not after["spec"]["replicas"] or self.excused:
            return
        pod = self._live().objects.get((PODS.kind, f"{name}-0"))
        if pod is None or not self._is_ready(f"{name}-0"):
            return
        status = before.get("status", {})
        unseen = status.get("observedGeneration", 0) < before["metadata"]["generation"]
        if unseen or pod["metadata"]["labels"][_REVISION] != status.get("updateRevision"):
            return  # an earlier change replaces this pod anyway
        self.changed_ready.add(name)
        others = [
            each["metadata"]["name"]
            for each in self._live().of_kind(STATEFUL_SETS.kind)
            if each["spec"]["replicas"] and each["metadata"]["name"] != name
        ]
        down = [each for each in others if not self._is_ready(f"{each}-0")]
        if down or len(self.changed_ready) > 1:
            self.add("together", f"{name} is changed beside {down or self.changed_ready}")

    def _is_ready(self, pod: str) -> bool:
        found = self._live().objects.get((PODS.kind, pod))
        if found is None or found["metadata"].get("deletionTimestamp"):
            return False
        return {"type": "Ready", "status": "True"} in found["status"]["conditions"]

    def _recorded(self, kind: str, name: str, before: Object | None, _: Object | None) -> None:
        """Judge that a claim with a store is replaced only if a user asks for it."""
        live = self._live().objects
        earlier = {**live, (kind, name): before} if before else live
        new, old = _claims(live), _claims(earlier)
        for partition, claim in old.items():
            if partition not in new:
                self.add("forgotten", f"partition {partition} and its claim {claim}")
            elif (
                new[partition] != claim and self._is_well(claim) and partition not in self.asked_for
            ):
                self.add("replaced", f"{claim} by {new[partition]}")

    def _is_well(self, name: str) -> bool:
        claim = self._live().objects.get((CLAIMS.kind, name))
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return False
        volume = self.matter.volumes.get(claim["spec"].get("volumeName", ""))
        return volume is not None and volume.store is not None

    def _claimed(self, name: str, before: Object | None, after: Object | None) -> None:
        """Judge the source of a new claim against the copies that there are."""
        if before is not None or after is None or self.excused:
            return
        partition = int(after["metadata"]["labels"][PARTITION])
        recorded = self._entry(partition)
        if recorded.get("persistentVolumeClaim") != name:
            self.add("unrecorded", f"{name} is created, and the status has {recorded}")
        low = self.matter.kafka.lows.get(partition, 0)
        copied = after["spec"].get("dataSource") or after["spec"].get("volumeName")
        if partition in self.asked_for or not low or copied:
            return
        recorded = recorded.get("restore", {})
        if recorded.get("source") == "Checkpoint":
            return
        made = datetime.fromisoformat(recorded["time"])
        better = [each for each in self._whole(partition, low) if each[1].made < made]
        if better:
            self.add("poorer", f"{name} begins empty beside {better[0][0]}")

    def _entry(self, partition: int) -> Object:
        entries = recorded_partitions(self._live().objects, objects.STREAM)
        return next((each for each in entries if each["partition"] == partition), {})

    def _stream(self) -> Object:
        return self._live().objects.get((STREAMS.kind, objects.STREAM), {})

    def _whole(self, partition: int, low: int) -> Iterable[tuple[str, Copy]]:
        """Return the complete copies that miss nothing."""
        for snapshot in self._live().of_kind(SNAPSHOTS.kind):
            name = snapshot["metadata"]["name"]
            entry = _entry(snapshot, partition)
            if snapshot["metadata"].get("deletionTimestamp") or entry.get("phase") != "Completed":
                continue
            found = self._live().objects.get((VOLUME_SNAPSHOTS.kind, entry.get("handle", "")))
            copy = self._in_bucket(partition, name)
            if self.ec2:
                copy = self.ec2.copy_of(entry.get("handle", ""))
            if found is not None:
                copy = self.matter.copies.get(found["metadata"]["uid"])
            if copy and copy.ready and copy.store.oldest < low <= entry.get("outputPosition", 0):
                yield name, copy

    # At rest

    def judge_rest(self, bystanders: Mapping[tuple[str, str], Object]) -> None:
        """Judge what must hold when all is quiet."""
        cluster = self._live()
        for address, one in bystanders.items():
            if cluster.objects.get(address) is not one:
                self.add("touched", f"{address}")
        mounted: dict[str, str] = {}
        for live in cluster.of_kind(STATEFUL_SETS.kind):
            for claim in claims_of(live["spec"]["template"]):
                if claim in mounted:
                    self.add(
                        "shared", f"{claim} by {mounted[claim]} and {live['metadata']['name']}"
                    )
                mounted[claim] = live["metadata"]["name"]
        self._judge_copies()
        self._judge_groups()
        for volume in self.ec2.left() if self.ec2 else ():
            self.add("left", f"volume {volume} of a restore")

    def _judge_groups(self) -> None:
        """Judge that each partition is recorded once, and that the stream counts its groups."""
        own = self._stream()
        groups = [
            each
            for each in self._live().of_kind(PARTITIONS.kind)
            if {"uid": own["metadata"]["uid"]}.items()
            <= each["metadata"].get("ownerReferences", [{}])[0].items()
        ]
        parts = [each.get("status", {}) for each in (own, *groups)]
        numbers = [entry["partition"] for each in parts for entry in each.get("partitions", ())]
        if len(numbers) != len(set(numbers)):
            self.add("twice", f"partitions {numbers} are recorded")
        count = own.get("status", {}).get("partitionCount", len(numbers))
        if count != len(numbers) or bool(groups) != ("partitionCount" in own.get("status", {})):
            self.add("miscounted", f"{count} partitions, not {numbers}, in {len(groups)} groups")

    def _judge_copies(self) -> None:
        cluster = self._live()
        snapshots = {each["metadata"]["name"]: each for each in cluster.of_kind(SNAPSHOTS.kind)}
        gone = (STREAMS.kind, objects.STREAM) not in cluster.objects
        for name, snapshot in snapshots.items():
            if not gone and snapshot["metadata"].get("deletionTimestamp"):
                self.add("undead", f"snapshot {name} is never released")
            phase = snapshot.get("status", {}).get("phase")
            ours = snapshot["spec"]["streamRef"]["name"] == objects.STREAM
            suspended = self._stream().get("spec", {}).get("suspend")
            if ours and not gone and not suspended and phase not in {"Completed", "Failed"}:
                self.add("unfinished", f"snapshot {name} is {phase}")
            for entry in snapshot.get("status", {}).get("partitions", ()):
                if (
                    ours
                    and entry["phase"] == "Completed"
                    and snapshot["status"]["provider"] == "S3"
                ) and self._in_bucket(entry["partition"], name) is None:
                    self.add("lost copy", f"{name} of partition {entry['partition']}")
        named = {
            entry.get("handle")
            for each in snapshots.values()
            for entry in each.get("status", {}).get("partitions", ())
        }
        for handle, made in (self.ec2.snapshots if self.ec2 else {}).items():
            name = next(each["Value"] for each in made["Tags"] if each["Key"] == SNAPSHOT_TAG)
            if handle not in named and name not in self.abandoned:
                self.add("orphan", f"EBS snapshot {handle} of {name}")
        for bucket, partition, name in self.matter.buckets:
            if name not in snapshots and name not in self.abandoned:
                self.add("orphan", f"copy {name} of partition {partition} in bucket {bucket}")

    def _in_bucket(self, partition: int, name: str) -> Copy | None:
        """Return a snapshot's copy, in whichever bucket it lies that may be read."""
        readable = (
            copy
            for (bucket, *of), copy in self.matter.buckets.items()
            if of == [partition, name] and bucket not in self.matter.denied
        )
        return next(readable, None)

    def vain_copies(self, status: Object) -> list[str]:
        """Return the copies that a status counts on, but whose worker can't read them."""
        bound = {each.partition: each for each in self.matter.processes.values() if each.ready}
        found = []
        for entry in status.get("partitions", ()):
            partition, name = entry["partition"], entry.get("lastSnapshot", {}).get("name")
            snapshot = self._live().objects.get((SNAPSHOTS.kind, name), {})
            process = bound.get(partition)
            if process is None or snapshot.get("status", {}).get("provider") != "S3":
                continue
            since = max(self.matter.denied.values(), default=process.started)
            # Its credentials are checked again when a worker starts.
            if process.started >= since and self._in_bucket(partition, name) is None:
                found.append(f"{name} of partition {partition}")
        return found

    def judge_deletion(self, kept: Mapping[str, str]) -> None:
        """Judge the claims after a stream was deleted: `kept` by name with their volumes."""
        live = {each["metadata"]["name"] for each in self._live().of_kind(CLAIMS.kind)}
        for name in kept:
            if name not in live:
                self.add("lost claim", f"{name} went with its stream, with reclaimPolicy: Retain")
        for live_set in self._live().of_kind(STATEFUL_SETS.kind):
            self.add("orphan", f"StatefulSet {live_set['metadata']['name']} outlives its stream")


def is_ours(one: Object) -> bool:
    """Return whether an object is of the simulated stream, by its label."""
    return bool((one["metadata"].get("labels") or {}).get(STREAM) == objects.STREAM)


def _claims(live: Mapping[Address, Object]) -> dict[int, str]:
    return {
        each["partition"]: each["persistentVolumeClaim"]
        for each in recorded_partitions(live, objects.STREAM)
        if "persistentVolumeClaim" in each
    }


def _entry(one: Object, partition: int) -> Object:
    entries = one.get("status", {}).get("partitions", ())
    return next((each for each in entries if each["partition"] == partition), {})
