"""A drained node takes one partition of a stream at a time."""

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import STREAM, Object
from dedupe_operator.resources import metadata


def build(stream: DedupeStream) -> Object:
    """The PodDisruptionBudget of a stream.

    A worker that is not ready may always be evicted: it serves nobody, and must not hold up a node.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata.of_stream(stream, stream.metadata.name),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": {STREAM: stream.metadata.name}},
        },
    }
