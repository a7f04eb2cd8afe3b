"""The end state of a stream, without what may differ between two histories with the same end."""

import json
import re
from typing import Final

from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import CLAIMS, PODS, STREAMS
from dedupe_operator.resources import config_map
from tests.operator_simulation.cluster import SimCluster, recorded_partitions
from tests.unit.operator.objects import STREAM, UID

_COMPARED: Final = (
    "StatefulSet",
    "Service",
    "ConfigMap",
    "ServiceAccount",
    "PodDisruptionBudget",
    "Secret",
)
_HASHED: Final = re.compile(r"-[0-9a-f]{10}$")
_OF_SNAPSHOTS: Final = frozenset({"SnapshotsHealthy"})


def end_state(cluster: SimCluster) -> dict[str, object]:
    """Return the end state by parts. The serial of a claim and its source may differ."""
    status = cluster.objects.get((STREAMS.kind, STREAM), {}).get("status", {})
    found: dict[str, object] = {
        f"condition {each['type']}": (each["status"], each["reason"])
        for each in status.get("conditions", ())
        if each["type"] not in _OF_SNAPSHOTS
    }
    for entry in recorded_partitions(cluster.objects, STREAM):
        number = entry["partition"]
        name = entry.get("persistentVolumeClaim", "")
        claim = cluster.objects.get((CLAIMS.kind, name))
        found[f"partition {number}"] = (entry["phase"], entry["ready"])
        found[f"claim of {number}"] = None if claim is None else _claim(claim)
        pod = cluster.objects.get((PODS.kind, f"{STREAM}-{number}-0"))
        found[f"pod of {number}"] = None if pod is None else _template(pod["spec"])["containers"]
        live = cluster.objects.get(("StatefulSet", f"{STREAM}-{number}"))
        mounted = live["spec"]["template"]["spec"]["volumes"] if live else []
        found[f"mounted by {number}"] = any(
            each.get("persistentVolumeClaim", {}).get("claimName") == name for each in mounted
        )
    templates = [each["spec"]["template"] for each in cluster.of_kind("StatefulSet")]
    mounted_maps = {config_map.mounted(each) for each in templates}
    for (kind, name), one in cluster.objects.items():
        if kind == "ConfigMap" and _HASHED.search(name) and name not in mounted_maps:
            continue  # of an earlier manifest: two of them stay
        if (kind in _COMPARED and name.startswith(f"{STREAM}-")) or (
            name == STREAM and kind in _COMPARED
        ):
            found[f"{kind} {name}"] = _bare(one)
    return found


def _claim(claim: Object) -> object:
    owned = bool(claim["metadata"].get("ownerReferences"))
    return claim["spec"]["resources"], owned, claim["status"]["phase"]


def _bare(one: Object) -> object:
    """Return the parts of an object that its user or the operator wants."""
    kept = {key: value for key, value in one.items() if key in {"spec", "data"}}
    if "template" in kept.get("spec", {}):
        template = kept["spec"]["template"]
        kept["spec"] = {
            **kept["spec"],
            "template": {**template, "spec": _template(template["spec"])},
        }
    text = json.dumps(kept, sort_keys=True)
    text = re.sub(rf"({STREAM}-\d+)-\d+\b", r"\1-N", text)
    return re.sub(rf"{UID}(-\d+)?", UID, text)


def _template(spec: Object) -> Object:
    # Where a store came from differs between histories.
    containers = [
        {
            **{key: value for key, value in each.items() if key != "env"},
            "args": [arg for arg in each["args"] if "--restore-from" not in arg],
        }
        for each in spec["containers"]
    ]
    return {**spec, "containers": containers}
