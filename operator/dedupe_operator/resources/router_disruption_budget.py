"""Build the routers' PodDisruptionBudget: a drain evicts one of them at a time."""

from dedupe_crds.annotations import ROUTERS_OF
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata


def build(stream: DedupeStream) -> Object | None:
    """Return the PodDisruptionBudget of a stream's routers."""
    if stream.spec.repartition is None:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata.of_routers(stream),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": {ROUTERS_OF: stream.metadata.name}},
        },
    }
