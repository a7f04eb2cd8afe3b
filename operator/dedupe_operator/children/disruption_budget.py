"""A drained node takes one partition of a stream at a time."""

from dedupe_crds.stream import DedupeStream
from dedupe_operator.children.owner import controlled_by
from dedupe_operator.labels import STREAM, Object, stream_labels


def build(stream: DedupeStream) -> Object:
    """The PodDisruptionBudget of a stream.

    A worker that is not ready may always be evicted: it serves nobody, and must not hold up a node.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": stream.metadata.name,
            "namespace": stream.metadata.namespace,
            "labels": stream_labels(stream.metadata.name),
            "ownerReferences": controlled_by(stream),
        },
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": {STREAM: stream.metadata.name}},
        },
    }
