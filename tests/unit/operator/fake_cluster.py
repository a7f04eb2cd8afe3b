"""A cluster in memory: server-side apply, and the controllers the operator works beside."""

import itertools
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, TypeVar

from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi, ReadLive
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import (
    CLAIMS,
    EVENTS,
    PARTITIONS,
    PODS,
    STATEFUL_SETS,
    STREAMS,
    VOLUME_SNAPSHOTS,
    Resource,
    resource_of,
)
from tests.unit.operator.objects import NAMESPACE, NODE, NOW, STREAM, node, raw_stream

T = TypeVar("T")
Address = tuple[str, str]
CLUSTER_UID: Final = "uid-of-kube-system"
_LIST_KEYS = ("name", "uid", "type", "partition", "containerPort", "mountPath", "topologyKey")


class Killed(BaseException):
    """The operator is killed before a write."""


class FakeCluster(KubernetesApi):
    """The operator's API server.

    `writes` are all writes but events, `fails` refuses to apply one by (kind, name), `keeps` to delete it.

    `lives` is how many writes the operator does until it is killed, for ever if None.

    `hanging` are VolumeSnapshots that never become usable, `now` is its clock.

    `webhook` changes each applied object before it is kept.

    It keeps what was applied beside each object, so that a field no longer applied goes away.
    """

    def __init__(self) -> None:
        self.objects: dict[Address, Object] = {}
        self.writes: list[tuple[str, str, str]] = []
        self.reads = 0
        self.fails: dict[Address, Exception] = {}
        self.keeps: dict[Address, Exception] = {}
        self.lives: int | None = None
        self.in_memory, self.has_memory = False, True
        self.bad_images: set[str] = set()
        self.hanging: set[str] = set()
        self.now = NOW
        self.webhook: Callable[[Object], None] = _leave
        self._applied: dict[tuple[str, str, str], Object] = {}
        self._number = itertools.count(1)
        self.add(node())
        system = {"name": "kube-system", "uid": CLUSTER_UID}
        self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": system})

    def add_stream(self, changes: dict[str, Any] | None = None) -> None:
        """What a user applies; its status stays, and its generation goes up with a change of spec."""
        wanted = raw_stream(changes)
        live = self.objects.get((STREAMS.kind, STREAM))
        if live is not None:
            wanted["status"] = live.get("status", {})
            wanted["metadata"]["generation"] = live["metadata"]["generation"] + 1
        self.objects[STREAMS.kind, STREAM] = wanted

    def add(self, made: Object) -> Object:
        """What somebody else makes."""
        made = _copy(made)
        made["metadata"].setdefault("uid", f"uid-{next(self._number)}")
        self.objects[made["kind"], made["metadata"]["name"]] = made
        return made

    def remove(self, kind: str, name: str) -> None:
        """What somebody deletes."""
        del self.objects[kind, name]
        self._applied = {
            key: value for key, value in self._applied.items() if key[:2] != (kind, name)
        }

    def one(self, kind: str, name: str) -> Object:
        return self.objects[kind, name]

    def get_copy(self, kind: str, name: str) -> Object:
        return _copy(self.one(kind, name))

    def names(self, kind: str) -> list[str]:
        return sorted(name for other, name in self.objects if other == kind)

    @property
    def status(self) -> Object:
        """The stream's status."""
        found: Object = self.one(STREAMS.kind, STREAM).get("status", {})
        return found

    def condition(self, kind: str) -> Object:
        found: Object = next(one for one in self.status["conditions"] if one["type"] == kind)
        return found

    @property
    def told(self) -> list[str]:
        """The reasons of all events."""
        return [one["reason"] for (kind, _), one in self.objects.items() if kind == EVENTS.kind]

    @contextmanager
    def from_memory(self) -> Iterator[None]:
        self.in_memory = self.has_memory
        try:
            yield
        finally:
            self.in_memory = False

    def require_live(self) -> None:
        if self.in_memory:
            raise ReadLive

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        self.reads += 1
        assert namespace == (NAMESPACE if resource.namespaced else None)
        return _copy(self.objects.get((resource.kind, name)))

    def find(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: str | None = None,
    ) -> list[Object]:
        self.reads += 1
        assert namespace == (NAMESPACE if resource.namespaced else None)
        prefix, _, uid = (fields or "").partition("involvedObject.uid=")
        assert not prefix or prefix.startswith("reason!=")
        return [
            _copy(one)
            for (kind, _), one in self.objects.items()
            if kind == resource.kind
            and (labels or {}).items() <= one["metadata"].get("labels", {}).items()
            and (not uid or one.get("involvedObject", {}).get("uid") == uid)
        ]

    def apply(self, wanted: Object, *, subresource: str | None = None) -> Object:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        resource_of(wanted)
        if kind == EVENTS.kind:
            return self.add(wanted)
        self._live()
        self.writes.append(("apply", kind, name))
        if error := self.fails.get((kind, name)):
            raise error
        live = self.objects.get((kind, name), {})
        if (uid := wanted["metadata"].get("uid")) and live.get("metadata", {}).get("uid") != uid:
            raise KubernetesError("Conflict", f"{kind} {name} has another UID")
        before = self._applied.get((kind, name, subresource or ""), {})
        now = merged(without(live, before, wanted), wanted)
        if kind == PARTITIONS.kind:  # its list is atomic
            now["status"] = _copy(wanted["status"])
        now["metadata"].setdefault("uid", f"uid-{next(self._number)}")
        self.webhook(now)
        if now.get("spec") != live.get("spec"):
            now["metadata"]["generation"] = live.get("metadata", {}).get("generation", 0) + 1
        self.objects[kind, name] = now
        self._applied[kind, name, subresource or ""] = _copy(wanted)
        return _copy(now)

    def _live(self) -> None:
        if self.lives is not None:
            if not self.lives:
                raise Killed
            self.lives -= 1

    def create(self, wanted: Object) -> Object:
        made = _copy(wanted)
        kind = made["kind"]
        if kind == EVENTS.kind:
            return self.add(made)
        name = made["metadata"]["name"]
        self._live()
        self.writes.append(("create", kind, name))
        if error := self.fails.get((kind, name)):
            raise error
        if (kind, name) in self.objects:
            raise KubernetesError("Conflict", f"{kind} {name} exists")
        made["metadata"]["creationTimestamp"] = self.now.isoformat()
        return self.add(made)

    def patch_metadata(self, resource: Resource, live: Object, changes: Object) -> Object:
        name = live["metadata"]["name"]
        self._live()
        self.writes.append(("patch", resource.kind, name))
        metadata = self.objects[resource.kind, name]["metadata"]
        assert metadata["uid"] == live["metadata"]["uid"]
        for field, value in changes.items():
            if isinstance(value, dict):
                both = {**(metadata.get(field) or {}), **value}
                metadata[field] = {key: each for key, each in both.items() if each is not None}
            else:
                metadata[field] = value
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.remove(resource.kind, name)
            return live
        return self.get_copy(resource.kind, name)

    def delete(
        self, resource: Resource, live: Object, *, orphan: bool = False, force: bool = False
    ) -> None:
        self.require_live()
        name = live["metadata"]["name"]
        how = "orphan" if orphan else "force" if force else "delete"
        self._live()
        self.writes.append((how, resource.kind, name))
        if error := self.keeps.get((resource.kind, name)):
            raise error
        found = self.objects.get((resource.kind, name))
        if found is not None and found["metadata"]["uid"] == live["metadata"]["uid"]:
            self.delete_as_user(resource.kind, name)

    def delete_as_user(self, kind: str, name: str) -> None:
        """What the API server does on a deletion: finalizers are waited for, owned objects go along."""
        found = self.objects[kind, name]
        if found["metadata"].get("finalizers"):
            found["metadata"]["deletionTimestamp"] = self.now.isoformat()
            return
        self.remove(kind, name)
        for address, one in list(self.objects.items()):
            owners = one["metadata"].get("ownerReferences") or []
            if found["metadata"]["uid"] in {owner["uid"] for owner in owners}:
                self.remove(*address)

    def settle(self) -> None:
        """Let the cluster's own controllers do what they are there for."""
        for _ in range(2):
            for (kind, name), one in list(self.objects.items()):
                if kind == STATEFUL_SETS.kind:
                    self._control(name, one)
                elif kind == CLAIMS.kind:
                    self._provision(name, one)
                elif kind == VOLUME_SNAPSHOTS.kind and name not in self.hanging:
                    one["status"] = {"readyToUse": True, "restoreSize": "20Gi"}

    def _provision(self, name: str, claim: Object) -> None:
        source = claim["spec"].get("dataSource")
        if source and (source["kind"], source["name"]) not in self.objects:
            claim["status"] = {"phase": "Pending"}
            return
        wanted = claim["spec"].setdefault("volumeName", f"pv-of-{name}")
        if wanted.startswith(f"{name}-") and ("PersistentVolume", wanted) not in self.objects:
            claim["status"] = {"phase": "Pending"}  # the operator makes that volume
            return
        claim["spec"].setdefault("storageClassName", "default")
        claim["status"] = {"phase": "Bound"}

    def _control(self, name: str, stateful_set: Object) -> None:
        """As the StatefulSet's controller does, which never replaces a pod that is not ready."""
        spec = stateful_set["spec"]
        spec.setdefault("podManagementPolicy", "OrderedReady")  # a default of the API server's
        revision = sha256(repr(spec["template"]).encode()).hexdigest()[:8]
        stateful_set["status"] = {
            "observedGeneration": stateful_set["metadata"]["generation"],
            "updateRevision": revision,
        }
        own = re.compile(rf"{re.escape(name)}-([0-9]+)")
        found = {int(each[1]) for pod in self.names(PODS.kind) if (each := own.fullmatch(pod))}
        for ordinal in sorted({*found, *range(spec["replicas"])}):
            pod_name = f"{name}-{ordinal}"
            pod = self.objects.get((PODS.kind, pod_name))
            if pod is not None and (
                ordinal >= spec["replicas"]
                or (_is_ready(pod) and _revision(pod) != revision)
                or any((CLAIMS.kind, claim) not in self.objects for claim in _claims_of(pod))
            ):
                self.remove(PODS.kind, pod_name)
                pod = None
            if pod is None and ordinal < spec["replicas"]:
                self._start(pod_name, spec["template"], revision)

    def _start(self, name: str, template: Object, revision: str) -> None:
        its = template["spec"]["containers"][0]
        image = its["image"]
        ready = image not in self.bad_images
        pull_failed = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
        container = {"name": its["name"], "image": image, "ready": ready}
        container["state"] = {"running": {}} if ready else pull_failed
        labels = {**template["metadata"]["labels"], "controller-revision-hash": revision}
        self.add(
            {
                "apiVersion": "v1",
                "kind": PODS.kind,
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "labels": labels,
                    "annotations": template["metadata"]["annotations"],
                    "creationTimestamp": "2026-11-01T11:00:00Z",
                },
                "spec": _copy(template["spec"]) | {"nodeName": NODE},
                "status": {
                    "podIP": "10.0.0.1",
                    "conditions": [{"type": "Ready", "status": str(ready)}],
                    "containerStatuses": [container],
                },
            }
        )


def _copy(value: T) -> T:
    """Copy what is in it, too. With copy.deepcopy it would be half of the time of the operator's tests."""
    copied: T = pickle.loads(pickle.dumps(value))  # noqa: S301 # what has just been written
    return copied


def _leave(_: Object) -> None:
    """Change nothing."""


def _is_ready(pod: Object) -> bool:
    return bool(pod["status"]["conditions"][0]["status"] == "True")


def _revision(pod: Object) -> object:
    return pod["metadata"]["labels"]["controller-revision-hash"]


def _claims_of(pod: Object) -> list[str]:
    volumes = (one.get("persistentVolumeClaim") for one in pod["spec"]["volumes"])
    return [str(one["claimName"]) for one in volumes if one]


def _list_key(items: list[Any]) -> str | None:
    """By what a list's items are told apart, None for a list that is replaced as a whole."""
    if not items or not all(isinstance(one, dict) for one in items):
        return None
    return next((key for key in _LIST_KEYS if all(key in one for one in items)), None)


def _pairs(items: list[Any], key: str) -> Iterator[tuple[Any, Any]]:
    return ((one.get(key), one) for one in items)


def merged(live: Any, wanted: Any) -> Any:  # noqa: ANN401 # any JSON value
    if isinstance(wanted, dict) and isinstance(live, dict):
        both = {name: merged(live.get(name), value) for name, value in wanted.items()}
        return {**live, **both}
    if isinstance(wanted, list) and isinstance(live, list) and (key := _list_key(wanted)):
        theirs = dict(_pairs(live, key))
        both = {name: merged(theirs.get(name), one) for name, one in _pairs(wanted, key)}
        return list((both | {name: theirs[name] for name in theirs if name not in both}).values())
    return _copy(wanted)


def without(live: Any, before: Any, wanted: Any) -> Any:  # noqa: ANN401 # any JSON value
    """What is live, without what was applied before and is not applied any more."""
    if isinstance(live, dict) and isinstance(before, dict) and isinstance(wanted, dict):
        return {
            name: without(value, before.get(name), wanted.get(name))
            for name, value in live.items()
            if name in wanted or name not in before
        }
    if isinstance(live, list) and isinstance(before, list) and isinstance(wanted, list):
        key = _list_key([*before, *wanted])
        if key is None:
            return live
        old, new = dict(_pairs(before, key)), dict(_pairs(wanted, key))
        return [
            without(one, old.get(name), new.get(name))
            for name, one in _pairs(live, key)
            if name in new or name not in old
        ]
    return live
