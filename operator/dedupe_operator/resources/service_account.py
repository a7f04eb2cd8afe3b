"""The workers' identity: it may do nothing, and its token is not mounted."""

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata


def name(stream: str) -> str:
    """Name of the ServiceAccount."""
    return f"{stream}-worker"


def build(stream: DedupeStream) -> Object:
    """The ServiceAccount of all workers of a stream."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata.of_stream(stream, name(stream.metadata.name)),
        "automountServiceAccountToken": False,
    }
