"""The API server of a simulated cluster: its writes fail as a schedule says, its reads may be old.

Objects are never changed in place, so that a shallow copy of the cluster is a view of its past.
"""

import marshal
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Final, TypeVar, cast

from dedupe_operator.config import LEASE_SECONDS
from dedupe_operator.errors import KubernetesError, Unreachable
from dedupe_operator.kubernetes.leader_election import Leadership
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import CLAIMS, EVENTS, PARTITIONS, PODS, STREAMS, Resource
from tests.operator_simulation.watcher import Watcher
from tests.unit.operator.fake_cluster import Address, FakeCluster, Killed
from tests.unit.operator.inline import FakeClock
from tests.unit.operator.objects import NAMESPACE

PAST: Final = 4
"""The number of earlier views that an old read may come from."""
_IMMUTABLE: Final = ("accessModes", "dataSource", "storageClassName", "volumeName")
_Result = TypeVar("_Result")


class Lease:
    """One operator's Lease, judged by the product's own check."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._lock = SimpleNamespace(renewed_at=clock(), released=False, seconds=LEASE_SECONDS)

    def renew(self) -> None:
        self._lock.renewed_at = self._clock()

    def check(self) -> None:
        """Raise LostLeadership if another operator may be the leader."""
        Leadership.check(cast("Leadership", self))


class SimCluster(FakeCluster):
    """The operator's API server in a simulated world.

    `fault` strikes once `writes_left` more writes are done; `staleness` is the probability of an old read.
    `take_over` runs while the writing process stands still. The watcher sees each write of the operator. `refused` is a
    kind of which none can be created, `forbidden` one that can't be read.
    """

    def __init__(self, seed: int, clock: FakeClock, watcher: Watcher) -> None:
        self.revision = 0
        super().__init__()
        self.seed = seed
        self.watcher = watcher
        self.lease = Lease(clock)
        self.fault: str | None = None
        self.writes_left = 0
        self.unreadable_in = -1
        self.staleness = 0.0
        self.pass_number = 0
        self.past: deque[dict[Address, Object]] = deque(maxlen=PAST)
        self.take_over: Callable[[], None] = lambda: None
        self.struck: list[str] = []
        self.refused = self.forbidden = ""

    def put(self, made: Object) -> Object:
        """Store an object, new or changed, as any client of the API server does."""
        self.revision += 1
        metadata = {"uid": f"u{self.revision}", "creationTimestamp": self.now.isoformat()}
        metadata |= made["metadata"] | {"resourceVersion": str(self.revision)}
        made = copied({**made, "metadata": metadata})
        self.objects[made["kind"], metadata["name"]] = made
        return made

    add = put

    def change(self, kind: str, name: str, **fields: object) -> Object:
        """Set fields of an object; those of metadata are merged."""
        found = self.objects[kind, name]
        metadata = {**found["metadata"], **cast("Object", fields.pop("metadata", {}))}
        return self.put({**found, **fields, "metadata": metadata})

    def remember(self) -> None:
        """Keep the present as a view that an old read may come from."""
        self.past.append(dict(self.objects))

    def of_kind(self, kind: str) -> list[Object]:
        return [one for (other, _), one in self.objects.items() if other == kind]

    # Reads

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        assert namespace == (NAMESPACE if resource.namespaced else None)
        self._read(resource)
        found = self.objects.get((resource.kind, name))  # never old: it names no resourceVersion
        return None if found is None else copied(found)

    def find(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: str | None = None,
    ) -> list[Object]:
        assert namespace == (NAMESPACE if resource.namespaced else None)
        prefix, _, uid = (fields or "").partition("involvedObject.uid=")
        assert not prefix or prefix.startswith("reason!=")
        return [
            copied(one)
            for (kind, _), one in self._listed(resource).items()
            if kind == resource.kind
            and (labels or {}).items() <= one["metadata"].get("labels", {}).items()
            and (not uid or one.get("involvedObject", {}).get("uid") == uid)
        ]

    def _read(self, resource: Resource) -> None:
        if resource.kind == self.forbidden:
            raise KubernetesError("Forbidden", f"simulated: {resource.plural} is forbidden")
        self.unreadable_in -= 1
        if self.unreadable_in == 0:
            self.struck.append("unreadable")
            raise Unreachable("simulated: a read that timed out")

    def _listed(self, resource: Resource) -> dict[Address, Object]:
        """Return the cluster as a list shows it: perhaps as it was, as a cache on the way may."""
        self._read(resource)
        # Groups are never listed from memory.
        if self.staleness and self.past and resource is not PARTITIONS:
            # By what is listed, not by its turn: the order of reads may depend on hashes.
            random = Random(f"{self.seed} {self.pass_number} {resource.kind}")
            if random.random() < self.staleness:
                return random.choice(self.past)
        return self.objects

    # Writes of the operator

    def apply(self, wanted: Object, *, subresource: str | None = None) -> Object:
        if wanted["kind"] == EVENTS.kind:
            return self.put(wanted)

        def effect() -> Object:
            kind, name = wanted["kind"], wanted["metadata"]["name"]
            live = self.objects.get((kind, name))
            if subresource and live is None:
                raise KubernetesError("NotFound", f"{kind} {name} does not exist")
            applied = self._applied.get((kind, name, subresource or ""))
            made = FakeCluster.apply(self, wanted, subresource=subresource)
            self.writes.pop()  # noted below, with faults
            if kind == CLAIMS.kind and live is not None and not _may_change(live, made):
                self.objects[kind, name] = live
                self._applied[kind, name, ""] = applied or {}
                raise KubernetesError("FieldImmutable", "spec is immutable")
            self.put(made)
            return made

        return self._written(f"apply{'-status' * bool(subresource)}", wanted, effect)

    def create(self, wanted: Object) -> Object:
        if wanted["kind"] == EVENTS.kind:
            return self.put(wanted)

        def effect() -> Object:
            if (wanted["kind"], wanted["metadata"]["name"]) in self.objects:
                raise KubernetesError("Conflict", f"{wanted['metadata']['name']} exists")
            return self.put(wanted)

        return self._written("create", wanted, effect)

    def set_finalizers(self, resource: Resource, live: Object, finalizers: list[str]) -> None:
        def effect() -> None:
            name = live["metadata"]["name"]
            found = self.objects.get((resource.kind, name))
            if found is None:
                raise KubernetesError("NotFound", name)
            expected = [live["metadata"][key] for key in ("uid", "resourceVersion")]
            if [found["metadata"][key] for key in ("uid", "resourceVersion")] != expected:
                raise KubernetesError("Conflict", f"{name} has changed")
            changed = self.change(resource.kind, name, metadata={"finalizers": finalizers})
            if changed["metadata"].get("deletionTimestamp") and not finalizers:
                self.remove(resource.kind, name)

        self._written("finalizers", live, effect)

    def delete(
        self, resource: Resource, live: Object, *, orphan: bool = False, force: bool = False
    ) -> None:
        assert not orphan  # no field of a simulated StatefulSet is immutable

        def effect() -> None:
            name = live["metadata"]["name"]
            found = self.objects.get((resource.kind, name))
            if found is not None and found["metadata"]["uid"] == live["metadata"]["uid"]:
                if force:
                    self.remove(resource.kind, name)
                else:
                    self.delete_as_user(resource.kind, name)

        how = "force-delete" if force else "delete"
        self._written(how, {**live, "kind": resource.kind}, effect)

    def delete_as_user(self, kind: str, name: str) -> None:
        """Delete as the API server does; what is still in use or held goes later."""
        found = self.objects[kind, name]
        in_use = (kind == PODS.kind and found["spec"].get("nodeName")) or (
            kind == CLAIMS.kind and any(name in claims_of(each) for each in self.of_kind(PODS.kind))
        )
        if in_use or found["metadata"].get("finalizers"):
            if not found["metadata"].get("deletionTimestamp"):
                self.change(kind, name, metadata={"deletionTimestamp": self.now.isoformat()})
            return
        self.remove(kind, name)

    def _written(self, how: str, target: Object, effect: Callable[[], _Result]) -> _Result:
        kind, name = target["kind"], target["metadata"]["name"]
        fault, self.writes_left = self._due(), self.writes_left - 1
        if fault == "frozen":
            self._stand_still()
        self.lease.check()
        if fault == "late":
            self._stand_still()
        if fault in {"refused", "conflict", "timeout"}:
            if fault == "conflict" and how != "create":  # that would mean: it exists
                raise KubernetesError("Conflict", "simulated: the object has changed")
            if fault == "refused":
                raise KubernetesError("ApiServerError", "simulated: too many requests")
            raise Unreachable("simulated: nothing arrived")
        if fault == "killed before":
            raise Killed
        before = self.objects.get((kind, name))
        if before is None and kind == self.refused and how in {"apply", "create"}:
            raise KubernetesError("QuotaExceeded", f"simulated: exceeded quota: {kind} {name}")
        self.writes.append((how, kind, name))
        result = effect()
        self.watcher.written(how, kind, name, before, self.objects.get((kind, name)))
        if fault == "killed after":
            raise Killed
        if fault == "answer lost":
            raise Unreachable("simulated: the answer is lost")
        return result

    def _due(self) -> str | None:
        if self.fault is None or self.writes_left > 0:
            return None
        fault, self.fault = self.fault, None
        self.struck.append(fault)
        return fault

    def _stand_still(self) -> None:
        lease = self.lease
        self.take_over()
        self.lease = lease


def recorded_partitions(objects: Mapping[Address, Object], stream: str) -> list[Object]:
    """Return what is recorded of each partition of a stream, in its status or in groups."""
    own = objects.get((STREAMS.kind, stream))
    if own is None:
        return []
    uid = own["metadata"]["uid"]
    groups = [
        one
        for (kind, _), one in objects.items()
        if kind == PARTITIONS.kind
        and uid in {each["uid"] for each in one["metadata"].get("ownerReferences", ())}
    ]
    entries = {
        each["partition"]: each
        for one in (*groups, own)
        for each in one.get("status", {}).get("partitions", ())
    }
    return [entries[number] for number in sorted(entries)]


def copied(one: Object) -> Object:
    """Return a copy of a JSON object."""
    made: Object = marshal.loads(marshal.dumps(one))  # noqa: S302 # our own, of a line above
    return made


def claims_of(pod: Object) -> list[str]:
    """Return the names of the claims that a pod or a template mounts."""
    volumes = (one.get("persistentVolumeClaim") for one in pod["spec"].get("volumes", ()))
    return [str(one["claimName"]) for one in volumes if one]


def _may_change(live: Object, changed: Object) -> bool:
    """Return whether the API server accepts a change of a claim."""
    return all(live["spec"].get(name) == changed["spec"].get(name) for name in _IMMUTABLE)
