"""Build the workers' ServiceAccount: no RBAC rights, and its token is not mounted."""

import json
from collections.abc import Sequence
from hashlib import sha256

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata


def name(stream: str) -> str:
    """Return the name of the ServiceAccount."""
    return f"{stream}-worker"


def annotations_hash(stream: DedupeStream) -> str:
    """Return a hash of the account's annotations, "" without any.

    A pod gets the role that they name when it is created.
    """
    annotations = stream.spec.worker.service_account.annotations
    text = json.dumps(annotations, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16] if annotations else ""


def build(stream: DedupeStream, pull_secrets: Sequence[Object] = ()) -> Object:
    """Return the ServiceAccount of all workers of a stream.

    Kubernetes gives its imagePullSecrets to each pod that is created, so a change of them restarts none.
    """
    described = metadata.of_stream(stream, name(stream.metadata.name))
    if annotations := stream.spec.worker.service_account.annotations:
        described["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": described,
        "automountServiceAccountToken": False,
        **({"imagePullSecrets": [*pull_secrets]} if pull_secrets else {}),
    }
