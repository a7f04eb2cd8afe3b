"""Add the settings of a stream, and the defaults of all streams, to pods.

`pod_template` and `router_stateful_set` call it. Invariant: without any setting a template stays as it is, byte for
byte, so no worker restarts.
"""

from typing import Any, Final

from dedupe_crds.spec.pod import PodShape
from dedupe_operator.kubernetes.names import Object

# Of these lists an item of the stream replaces the default one of the same key; all other lists are replaced whole.
_MERGED_BY: Final = {
    "imagePullSecrets": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "sidecars": "name",
}
_NAMES: Final = frozenset(field.alias or name for name, field in PodShape.model_fields.items())
_MERGED_MAPS: Final = ("nodeSelector", "labels", "annotations")
_OF_POD: Final = ("nodeSelector", "tolerations", "affinity", "priorityClassName")


def merged(defaults: PodShape, own: PodShape) -> dict[str, Any]:
    """Return the fields that are set in either, by YAML names; `own` goes first."""
    base, wanted = _set(defaults), _set(own)
    found = base | wanted
    for name, key in _MERGED_BY.items():
        items = {item[key]: item for item in (*base.get(name, ()), *wanted.get(name, ()))}
        if items:
            found[name] = list(items.values())
    for name in _MERGED_MAPS:
        if texts := {**base.get(name, {}), **wanted.get(name, {})}:
            found[name] = texts
    return found


def shaped(template: Object, shape: dict[str, Any], siblings: dict[str, str]) -> Object:
    """Return a template of one container with the fields of a shape.

    `siblings` are the labels of the pods that are spread.
    """
    spec, metadata = template["spec"], template["metadata"]
    (container,) = spec["containers"]
    container = {**container}
    for name in ("env", "volumeMounts"):
        if name in shape:
            container[name] = [*container.get(name, ()), *shape[name]]
    spec = {**spec, "containers": [container, *shape.get("sidecars", ())]}
    spec |= {name: shape[name] for name in _OF_POD if name in shape}
    if "volumes" in shape:
        spec["volumes"] = [*spec["volumes"], *shape["volumes"]]
    if constraints := shape.get("topologySpreadConstraints"):
        selector = {"labelSelector": {"matchLabels": siblings}}
        spec["topologySpreadConstraints"] = [{**selector, **each} for each in constraints]
    # The operator's own labels and annotations go first: it finds its pods by them.
    for name in ("labels", "annotations"):
        metadata = {**metadata, name: {**shape.get(name, {}), **metadata[name]}}
    return {**template, "metadata": metadata, "spec": spec}


def _set(shape: PodShape) -> dict[str, Any]:
    return {
        name: value
        for name, value in shape.model_dump(mode="json", by_alias=True).items()
        if value and name in _NAMES
    }
