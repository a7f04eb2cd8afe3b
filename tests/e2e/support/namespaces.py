"""Namespaces of tests: named after them, and enforcing the restricted Pod Security Standard."""

import re
from typing import Any, Final
from uuid import uuid4

from tests.cluster.chart import RESTRICTED
from tests.e2e.support.kubectl import Kubectl

SMALL: Final[dict[str, Any]] = {
    "store": {"window": {"maxBytes": "64Mi"}},
    "storage": {"size": "128Mi", "reclaimPolicy": "Delete"},
}
"""Fields of a spec for a stream that is soon made: a volume's file system is written when it is."""


def make_namespace(kubectl: Kubectl, title: str) -> str:
    """Create one for a title; returns its name, which nothing else has."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower())[:40].strip("-")
    name = f"e2e-{slug}-{uuid4().hex[:6]}"
    metadata = {"name": name, "labels": RESTRICTED}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return name
