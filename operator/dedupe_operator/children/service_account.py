"""The workers' identity: it may do nothing, and its token is not mounted."""

from dedupe_crds.stream import DedupeStream
from dedupe_operator.children.owner import controlled_by
from dedupe_operator.labels import Object, stream_labels


def name(stream: str) -> str:
    """Name of the ServiceAccount."""
    return f"{stream}-worker"


def build(stream: DedupeStream) -> Object:
    """The ServiceAccount of all workers of a stream."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": name(stream.metadata.name),
            "namespace": stream.metadata.namespace,
            "labels": stream_labels(stream.metadata.name),
            "ownerReferences": controlled_by(stream),
        },
        "automountServiceAccountToken": False,
    }
