"""Check objects against the API of a version of Kubernetes: an unknown field is an error."""

import gzip
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft7Validator

MINORS: Final = ("1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
"""The supported versions, from that of `kubeVersion` in Chart.yaml on."""

KINDS: Final = (
    "apiextensions.k8s.io/v1 CustomResourceDefinition",
    "apps/v1 Deployment",
    "apps/v1 StatefulSet",
    "networking.k8s.io/v1 NetworkPolicy",
    "policy/v1 PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1 ClusterRole",
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1 Role",
    "rbac.authorization.k8s.io/v1 RoleBinding",
    "v1 ConfigMap",
    "v1 Event",
    "v1 PersistentVolume",
    "v1 PersistentVolumeClaim",
    "v1 Secret",
    "v1 Service",
    "v1 ServiceAccount",
)
"""The kinds that the chart and the operator write. After a change run `python -m tests.support.kubernetes_schemas`."""


def path_of(minor: str) -> Path:
    """Return the file with the schemas of a version."""
    return Path(__file__).with_name(f"{minor}.json.gz")


def errors(minor: str, wanted: Mapping[str, Any]) -> list[str]:
    """Return why a version of Kubernetes would refuse an object. Raises KeyError for another kind."""
    validator = _validators(minor)[f"{wanted['apiVersion']} {wanted['kind']}"]
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(dict(wanted))]


def refused(minor: str, objects: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the objects that a version of Kubernetes would refuse, and why."""
    found = {f"{each['kind']} {each['metadata']['name']}": errors(minor, each) for each in objects}
    return {name: reasons for name, reasons in found.items() if reasons}


@cache
def _validators(minor: str) -> dict[str, Draft7Validator]:
    """Return the validators of a version, by kind."""
    content = json.loads(gzip.decompress(path_of(minor).read_bytes()))
    definitions = content["definitions"]
    return {
        kind: Draft7Validator({"$ref": f"#/definitions/{name}", "definitions": definitions})
        for kind, name in content["kinds"].items()
    }
