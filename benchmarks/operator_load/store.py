"""The objects of the pretended cluster, and what controllers and nodes do with them at once.

`cluster` serves them. They are stored as they are applied: nothing is defaulted or refused.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from hashlib import sha256
from typing import Any, Final

from tests.unit.operator.fake_cluster import merged, without

Object = dict[str, Any]
KINDS: Final = {
    "dedupestreams": "DedupeStream",
    "dedupesnapshots": "DedupeSnapshot",
    "dedupestreampartitions": "DedupeStreamPartitions",
    "statefulsets": "StatefulSet",
    "pods": "Pod",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "services": "Service",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "serviceaccounts": "ServiceAccount",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "events": "Event",
    "leases": "Lease",
    "namespaces": "Namespace",
    "nodes": "Node",
    "storageclasses": "StorageClass",
}
_CREATED: Final = "2026-11-01T11:00:00Z"


class Cluster:
    """All objects by plural, namespace and name; one queue for each open watch."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], Object]] = {each: {} for each in KINDS}
        self.requests: dict[str, int] = {}
        self._watches: dict[str, list[asyncio.Queue[tuple[str, Object]]]] = {
            each: [] for each in KINDS
        }
        self._applied: dict[tuple[str, ...], Object] = {}
        self.versions = itertools.count(1)
        self._address = itertools.count(2)

    def put(self, plural: str, live: Object) -> Object:
        """Store an object; tell the watches."""
        metadata = live["metadata"]
        at = (metadata.get("namespace", ""), metadata["name"])
        kind = "MODIFIED" if at in self.objects[plural] else "ADDED"
        version = next(self.versions)
        metadata.setdefault("uid", f"uid-{version}")
        metadata.setdefault("creationTimestamp", _CREATED)
        metadata.setdefault("generation", 1)
        metadata["resourceVersion"] = str(version)
        self.objects[plural][at] = live
        for changes in self._watches[plural]:
            changes.put_nowait((kind, live))
        return live

    def apply(self, plural: str, wanted: Object) -> Object:
        """Merge fields into an object, or create it; the cluster does its part."""
        metadata = wanted["metadata"]
        at = (metadata.get("namespace", ""), metadata["name"])
        before = self.objects[plural].get(at)
        field = (plural, *at, "status" if "status" in wanted else "")
        applied = self._applied.get(field, {})
        live = merged(without(deepcopy(before or {}), applied, wanted), wanted)
        self._applied[field] = wanted
        if before is not None:
            live["metadata"].pop("resourceVersion", None)
            same = {**before["metadata"], "resourceVersion": None} == {
                **live["metadata"],
                "resourceVersion": None,
            }
            if same and {**before, "metadata": None} == {**live, "metadata": None}:
                return before
            if before.get("spec") != live.get("spec"):
                live["metadata"]["generation"] = before["metadata"]["generation"] + 1
        if plural == "persistentvolumeclaims":
            live["spec"].setdefault("volumeName", f"pv-of-{metadata['name']}")
            live["status"] = {"phase": "Bound", "capacity": live["spec"]["resources"]["requests"]}
        live = self.put(plural, live)
        if plural == "statefulsets":
            self._run(live)
        return live

    def _run(self, stateful_set: Object) -> None:
        """Run the pods of a StatefulSet at once."""
        spec, metadata = stateful_set["spec"], stateful_set["metadata"]
        revision = sha256(json.dumps(spec["template"]).encode()).hexdigest()[:8]
        status = {"observedGeneration": metadata["generation"], "updateRevision": revision}
        self.put("statefulsets", {**stateful_set, "metadata": dict(metadata), "status": status})
        number = next(self._address)
        template = deepcopy(spec["template"])
        container = {"name": template["spec"]["containers"][0]["name"], "ready": True}
        container |= {"image": template["spec"]["containers"][0]["image"], "state": {"running": {}}}
        labels = {**template["metadata"]["labels"], "controller-revision-hash": revision}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template["metadata"],
                "name": f"{metadata['name']}-0",
                "namespace": metadata["namespace"],
                "labels": labels,
            },
            "spec": {**template["spec"], "nodeName": "node-1"},
            "status": {
                "podIP": f"127.{1 + number // 62500}.{number // 250 % 250}.{1 + number % 250}",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [container],
            },
        }
        self.put("pods", pod)

    @asynccontextmanager
    async def watching(self, plural: str) -> AsyncIterator[asyncio.Queue[tuple[str, Object]]]:
        """Open a watch."""
        changes: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        self._watches[plural].append(changes)
        try:
            yield changes
        finally:
            self._watches[plural].remove(changes)


def selected(query: Mapping[str, str], live: Object) -> bool:
    """Return whether a request's selectors match an object."""
    labels = live["metadata"].get("labels") or {}
    pairs = [each.split("=", 1) for each in query.get("labelSelector", "").split(",") if each]
    uid = query.get("fieldSelector", "").removeprefix("involvedObject.uid=")
    about = live.get("involvedObject", {}).get("uid")
    return all(labels.get(name) == value for name, value in pairs) and uid in {"", about}


def node() -> Object:
    """Return the only node."""
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": _CREATED}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1", "labels": {}},
        "status": {"conditions": conditions},
    }
