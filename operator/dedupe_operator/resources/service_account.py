"""Build the workers' ServiceAccount: no RBAC rights, and its token is not mounted."""

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata


def name(stream: str) -> str:
    """Return the name of the ServiceAccount."""
    return f"{stream}-worker"


def build(stream: DedupeStream) -> Object:
    """Return the ServiceAccount of all workers of a stream."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata.of_stream(stream, name(stream.metadata.name)),
        "automountServiceAccountToken": False,
    }
