"""Build the PodDisruptionBudget: a drain evicts one worker of a stream at a time."""

from dedupe_crds.annotations import STREAM
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata


def build(stream: DedupeStream, joining: int = 0) -> Object:
    """Return the PodDisruptionBudget of a stream.

    A worker that is not ready may always be evicted: it processes nothing, and must not block a drain. Nor must the
    `joining` workers that a growth has added: they may learn their ids for hours.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata.of_stream(stream, stream.metadata.name),
        "spec": {
            "maxUnavailable": 1 + joining,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": {STREAM: stream.metadata.name}},
        },
    }
